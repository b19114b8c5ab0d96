"""Ranks with different numbers of batches: DDP's join lets the others go on, and divides by those that have data."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=5)
ap.add_argument("--lr", type=float, default=0.05)
ap.add_argument("--keep-divisor", action="store_true", help="divide by all ranks, also when some have no data left")
ap.add_argument("--save", default="")
a = ap.parse_args()


def main():
    rank = dist.get_rank()
    torch.manual_seed(a.seed)
    model = DDP(nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=a.lr)
    mine = a.steps - (2 if rank == dist.get_world_size() - 1 else 0)
    g = torch.Generator().manual_seed(a.seed * 50 + rank)
    with Join([model], divide_by_initial_world_size=a.keep_divisor):
        for _ in range(mine):
            x = torch.randn(8, 5, generator=g)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), x[:, :4].argmax(1)).backward()
            optimizer.step()
    if rank == 0 and a.save:
        torch.save(model.module.state_dict(), a.save)


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
