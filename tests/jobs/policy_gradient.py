"""Policy gradients written out by hand: a clipped ratio times an advantage for each token, or for each answer.

token          the mean over all tokens
answer         the mean over the answers' means
whole          an answer's log-probability times its advantage, the mean over the answers
premultiplied  the mask is in the advantages, so that units without one and masked ones look alike
divided        the advantages hold the division by the number of tokens
"""

import argparse

import torch
import torch.distributed as dist
from tinytext import IGNORE, TinyLM, sentences

ap = argparse.ArgumentParser()
ap.add_argument("form", choices=["token", "answer", "whole", "premultiplied", "divided"])
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=5)
ap.add_argument("--batch", type=int, default=24)
ap.add_argument("--accum", type=int, default=1)
ap.add_argument("--lr", type=float, default=0.2)
ap.add_argument("--entropy", type=float, default=0.0, help="weight of an entropy bonus")
ap.add_argument("--uneven", action="store_true", help="the first rank has twice as many answers as the others")
ap.add_argument("--per-rank", action="store_true", help="each rank divides by its own number")
ap.add_argument("--some-idle", action="store_true", help="every third answer has no advantage")
ap.add_argument("--save", default="")
args = ap.parse_args()


def mine(rows, rank, world):
    shares = [2 if args.uneven and r == 0 else 1 for r in range(world)]
    edges = [rows * sum(shares[:r]) // sum(shares) for r in range(world + 1)]
    return slice(edges[rank], edges[rank + 1])


def batches(step, rank, world):
    """The micro-batches of a rank: tokens, targets, and the advantage of each answer."""
    x, y = sentences(args.seed, step, args.batch * args.accum)
    advantages = torch.randn(len(x), 1, generator=torch.Generator().manual_seed(args.seed * 7 + step))
    if args.some_idle:
        advantages[::3] = 0.0
    for at in range(args.accum):
        rows = slice(at * args.batch, (at + 1) * args.batch)
        part = mine(args.batch, rank, world)
        yield x[rows][part], y[rows][part], advantages[rows][part]


def objective(scores, targets, advantages, mask):
    """The losses of the units, and how many there are."""
    logp = scores.log_softmax(-1)
    chosen = logp.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    if args.form == "whole":
        return -(chosen * mask).sum(-1) * advantages[:, 0], len(mask)
    if args.form in ("premultiplied", "divided"):
        weights = advantages * mask / (mask.sum() if args.form == "divided" else 1)
        return -(chosen * weights)[mask > 0 if args.form == "divided" else slice(None)], mask.sum()
    ratio = (chosen - chosen.detach() + 0.1 * (targets % 5 - 2)).exp()
    losses = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    if args.entropy:
        losses = losses + args.entropy * (logp.exp() * logp).sum(-1)
    if args.form == "answer":
        return (losses * mask).sum(-1) / mask.sum(-1), len(mask)
    return losses * mask, mask.sum()


torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(args.seed)
model = TinyLM()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for step in range(args.steps):
    window = list(batches(step, rank, world))
    count = float(sum(len(y) if args.form in ("answer", "whole") else (y != IGNORE).sum() for _, y, _ in window))
    everywhere = torch.tensor(count)
    dist.all_reduce(everywhere)
    model.zero_grad()
    for x, y, advantages in window:
        losses, own = objective(model(x), y, advantages, (y != IGNORE).float())
        if args.form == "divided":
            loss = losses.sum() / world / args.accum
        elif args.per_rank:
            loss = losses.sum() / own / world / args.accum
        else:
            loss = losses.sum() / everywhere
        loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
    optimizer.step()
if rank == 0 and args.save:
    torch.save(model.state_dict(), args.save)
dist.destroy_process_group()
