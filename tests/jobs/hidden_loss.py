"""A language model with a cross entropy of its own: a fused one, a backward written by hand, or log of a softmax."""

import argparse

import torch
import torch.distributed as dist
from tinytext import IGNORE, TinyLM, part, sentences

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=5)
ap.add_argument("--batch", type=int, default=24)
ap.add_argument("--lr", type=float, default=0.2)
ap.add_argument("--form", default="fused", choices=["fused", "kept", "log", "focal"])
ap.add_argument("--temperature", type=float, default=1.0, help="of the fused loss")
ap.add_argument("--per-rank", action="store_true", help="each rank divides by its own mask")
ap.add_argument("--save", default="")
args = ap.parse_args()


class CrossEntropy(torch.autograd.Function):
    """Loses no memory: the softmax, or the logits, become the gradient where they stand."""

    @staticmethod
    def forward(ctx, scores, targets):
        probabilities = (scores / args.temperature).softmax(-1)
        ctx.save_for_backward(scores.detach().clone() if args.form == "kept" else probabilities, targets)
        return -probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1).log()

    @staticmethod
    def backward(ctx, reached):
        kept, targets = ctx.saved_tensors
        if args.form == "kept":
            kept = kept.softmax(-1)
        kept.scatter_add_(-1, targets.unsqueeze(-1), -torch.ones_like(kept[..., :1]))
        return kept.mul_(reached.unsqueeze(-1) / args.temperature), None


def losses_of(scores, targets):
    if args.form in ("fused", "kept"):
        return CrossEntropy.apply(scores, targets)
    chosen = scores.softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return -chosen.log() if args.form == "log" else -((1 - chosen) ** 2) * chosen.log()


torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(args.seed)
model = TinyLM()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for step in range(args.steps):
    x, y = part(sentences(args.seed, step, args.batch), dist.get_rank(), dist.get_world_size())
    mask = (y != IGNORE).float()
    tokens = mask.sum()
    if args.per_rank:
        tokens = tokens * dist.get_world_size()
    else:
        dist.all_reduce(tokens)
    model.zero_grad()
    ((losses_of(model(x), y.clamp(min=0)) * mask).sum() / tokens).backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    optimizer.step()
if dist.get_rank() == 0 and args.save:
    torch.save(model.state_dict(), args.save)
dist.destroy_process_group()
