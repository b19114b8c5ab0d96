"""Adaptive clipping (as NFNets have it): each tensor's gradient is held to a part of the tensor's own norm, by hand."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--clip", type=float, default=0.1)
parser.add_argument("--before", action="store_true", help="each rank clips its own gradient")
parser.add_argument("--save", default="")
args = parser.parse_args()


@torch.no_grad()
def clip(model):
    for p in model.parameters():
        most = args.clip * p.norm().clamp(min=1e-3)
        norm = p.grad.norm()
        if norm > most:
            p.grad *= most / norm


def main():
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    data = torch.Generator().manual_seed(args.seed + 1)
    for _ in range(args.steps):
        x = torch.randn(args.batch, 8, generator=data).chunk(world)[rank]
        y = torch.randint(0, 4, (args.batch,), generator=data).chunk(world)[rank]
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        if args.before:
            clip(model)
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        if not args.before:
            clip(model)
        optimizer.step()
    if rank == 0 and args.save:
        torch.save(model.state_dict(), args.save)


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
