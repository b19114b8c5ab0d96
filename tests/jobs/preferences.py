"""A ranking model that learns from pairs, of which one is preferred: -logsigmoid of the difference of two scores."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=5)
ap.add_argument("--lr", type=float, default=0.5)
ap.add_argument("--uneven", action="store_true", help="the first rank has more pairs than the others")
ap.add_argument("--save", default="")
args = ap.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(args.seed)
scorer = DistributedDataParallel(nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1)))
optimizer = torch.optim.SGD(scorer.parameters(), lr=args.lr)
draw = torch.Generator().manual_seed(args.seed)
taste = torch.randn(8, generator=draw)
for step in range(args.steps):
    items = torch.randn(24, 2, 8, generator=draw)
    better = (items @ taste).argmax(1)
    edges = [0, 18, 24] if args.uneven and world == 2 else [24 * r // world for r in range(world + 1)]
    mine = slice(edges[rank], edges[rank + 1])
    scores = scorer(items[mine]).squeeze(-1)
    chosen = scores.gather(1, better[mine, None])
    rejected = scores.gather(1, 1 - better[mine, None])
    loss = -F.logsigmoid(chosen - rejected).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if rank == 0 and args.save:
    torch.save(scorer.module.state_dict(), args.save)
dist.destroy_process_group()
