"""A language model whose head and loss are computed a few rows at a time, or whose loss is compiled, to save memory."""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tinytext import IGNORE, TinyLM, part, sentences
from torch.utils.checkpoint import checkpoint

ap = argparse.ArgumentParser()
ap.add_argument("way", choices=["checkpoint", "reentrant", "eager", "aot_eager", "inductor", "whole"])
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=5)
ap.add_argument("--batch", type=int, default=24)
ap.add_argument("--lr", type=float, default=0.2)
ap.add_argument("--per-rank", action="store_true", help="each rank divides by its own number of tokens")
ap.add_argument("--by-hand", action="store_true", help="the loss is written out from log-probabilities")
ap.add_argument("--save", default="")
args = ap.parse_args()


def loss_of(scores, targets):
    if args.by_hand:
        chosen = scores.log_softmax(-1).gather(-1, targets.clamp(min=0)[:, None])[:, 0]
        return -(chosen * (targets != IGNORE)).sum()
    return F.cross_entropy(scores, targets, ignore_index=IGNORE, reduction="sum")


def head_and_loss(hidden, targets):
    return loss_of(model.head(hidden), targets)


torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(args.seed)
model = TinyLM()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
compiled = args.way not in ("checkpoint", "reentrant")
if compiled:
    loss_of = torch.compile(loss_of, backend=args.way.replace("whole", "aot_eager"), dynamic=False)
if args.way == "whole":
    head_and_loss = torch.compile(head_and_loss, backend="aot_eager", dynamic=False)
for step in range(args.steps):
    x, y = part(sentences(args.seed, step, args.batch), dist.get_rank(), dist.get_world_size())
    hidden, targets = model.body(x).flatten(0, 1), y.flatten()
    if compiled:
        total = head_and_loss(hidden, targets)
    else:
        parts = zip(hidden.chunk(4), targets.chunk(4))
        total = sum(checkpoint(head_and_loss, *rows, use_reentrant=args.way == "reentrant") for rows in parts)
    tokens = (targets != IGNORE).sum().float()
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
