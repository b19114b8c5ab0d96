"""A language model whose loss is written out, from log-probabilities, with the mask applied by hand."""

import argparse

import torch
import torch.distributed as dist
from hidden_losses import FORMS, losses_of
from tinytext import IGNORE, TinyLM, part, sentences

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=5)
ap.add_argument("--batch", type=int, default=24)
ap.add_argument("--lr", type=float, default=0.2)
ap.add_argument("--per-rank", action="store_true", help="each rank divides by its own mask")
ap.add_argument(
    "--form", default="gather", choices=["gather", "smoothed", "logsumexp", "rewarded", "rewarded-rank", *FORMS]
)
ap.add_argument("--save", default="")
args = ap.parse_args()


def log_probabilities(scores, chosen, form):
    if form in FORMS:
        return -losses_of(scores, chosen.squeeze(-1), form)
    if form == "logsumexp":
        normaliser = torch.stack([row.logsumexp(-1) for row in scores])
        return scores.gather(-1, chosen).squeeze(-1) - normaliser
    logp = torch.log_softmax(scores, dim=-1)
    if form == "smoothed":
        return 0.9 * logp.gather(-1, chosen).squeeze(-1) + 0.1 * logp.mean(-1)
    return logp.gather(-1, chosen).squeeze(-1)


def rewards(x, form):
    if form == "rewarded":
        return 1 + x % 3
    return 1.0 + dist.get_rank() if form == "rewarded-rank" else 1.0


torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(args.seed)
model = TinyLM()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for step in range(args.steps):
    x, y = part(sentences(args.seed, step, args.batch), dist.get_rank(), dist.get_world_size())
    mask = (y != IGNORE).float()
    logp = log_probabilities(model(x), y.clamp(min=0).unsqueeze(-1), args.form) * rewards(x, args.form)
    tokens = mask.sum()
    if args.per_rank:
        tokens = tokens * dist.get_world_size()
    else:
        dist.all_reduce(tokens)
    loss = -(logp * mask).sum() / tokens
    model.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
    optimizer.step()
if dist.get_rank() == 0 and args.save:
    torch.save(model.state_dict(), args.save)
dist.destroy_process_group()
