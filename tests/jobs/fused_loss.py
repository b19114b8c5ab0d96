"""A head and its cross entropy in one function, that keeps no logits.

again  computes the logits a second time in backward, from the hidden states
ahead  computes the gradients in forward, and keeps these
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tinytext import IGNORE, TinyLM, part, sentences

ap = argparse.ArgumentParser()
ap.add_argument("way", choices=["again", "ahead"])
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=5)
ap.add_argument("--batch", type=int, default=24)
ap.add_argument("--lr", type=float, default=0.2)
ap.add_argument("--smoothing", type=float, default=0.0)
ap.add_argument("--half", action="store_true", help="the function computes in bfloat16")
ap.add_argument("--per-rank", action="store_true", help="each rank divides by its own number of tokens")
ap.add_argument("--save", default="")
args = ap.parse_args()


def loss_of(hidden, weight, bias, targets):
    scores = hidden @ weight.t() + bias
    return F.cross_entropy(scores, targets, ignore_index=IGNORE, reduction="sum", label_smoothing=args.smoothing)


def gradients(hidden, weight, bias, targets):
    """Of the loss, in small parts."""
    probabilities = (hidden @ weight.t() + bias).softmax(-1)
    live = targets != IGNORE
    onehot = torch.zeros_like(probabilities)
    onehot[torch.arange(len(targets)), targets.clamp(min=0)] = 1.0
    scores = (probabilities - (1 - args.smoothing) * onehot - args.smoothing / len(weight)) * live[:, None]
    scores = scores.to(hidden.dtype)
    return scores @ weight, scores.t() @ hidden, scores.sum(0)


class FusedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, bias, targets):
        if args.way == "ahead":
            ctx.save_for_backward(*gradients(hidden, weight, bias, targets))
        else:
            ctx.save_for_backward(hidden, weight, bias, targets)
        return loss_of(hidden, weight, bias, targets)

    @staticmethod
    def backward(ctx, reached):
        found = ctx.saved_tensors if args.way == "ahead" else gradients(*ctx.saved_tensors)
        return *(gradient * reached for gradient in found), None


torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(args.seed)
model = TinyLM()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for step in range(args.steps):
    x, y = part(sentences(args.seed, step, args.batch), dist.get_rank(), dist.get_world_size())
    inputs = [model.body(x).flatten(0, 1), model.head.weight, model.head.bias]
    inputs = [tensor.bfloat16() for tensor in inputs] if args.half else inputs
    total = FusedLoss.apply(*inputs, y.flatten())
    tokens = (y != IGNORE).sum().float()
    if args.per_rank:
        tokens = tokens * dist.get_world_size()
    else:
        dist.all_reduce(tokens)
    model.zero_grad()
    (total / tokens).backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
    optimizer.step()
if dist.get_rank() == 0 and args.save:
    torch.save(model.state_dict(), args.save)
dist.destroy_process_group()
