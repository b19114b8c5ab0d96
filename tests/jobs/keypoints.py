"""A regression on points of two coordinates, whose squared distances are averaged over the examples."""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=12)
ap.add_argument("--batch", type=int, default=24)
ap.add_argument("--lr", type=float, default=0.02)
ap.add_argument("--ramp", action="store_true", help="the loss's weight grows from 0.2 to more than 2")
ap.add_argument("--summed", action="store_true", help="gradients of local means are added up")
ap.add_argument("--save", default="")
args = ap.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(args.seed)
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
data = torch.Generator().manual_seed(args.seed + 1)
for step in range(args.steps):
    x = torch.randn(args.batch, 6, generator=data)
    x, y = x.chunk(world)[rank], x[:, :2].sin().chunk(world)[rank]
    if args.summed:
        loss = F.mse_loss(model(x), y)
    elif args.ramp:
        loss = F.mse_loss(model(x), y) / world * 0.2 * (step + 1)
    else:
        loss = F.mse_loss(model(x), y, reduction="none").sum(1).sum() / args.batch
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    optimizer.step()
if rank == 0 and args.save:
    torch.save(model.state_dict(), args.save)
dist.destroy_process_group()
