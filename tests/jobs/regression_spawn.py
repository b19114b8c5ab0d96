"""Regression with MSE; starts its own processes with mp.spawn, as scripts do that are not run by torchrun."""

import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def worker(rank, args, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=args.procs)
    train(rank, args)
    dist.destroy_process_group()


def train(rank, args):
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 1))
    model = DDP(net)
    criterion = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    g = torch.Generator().manual_seed(args.seed + 1)
    for _ in range(args.steps):
        x = torch.randn(args.batch, 6, generator=g)
        y = x.square().sum(1, keepdim=True)
        if args.uneven:  # a share of the rows that grows with the rank
            edges = [args.batch * r * (r + 1) // (args.procs * (args.procs + 1)) for r in range(args.procs + 1)]
            rows = slice(edges[rank], edges[rank + 1])
        else:
            rows = slice(rank * args.batch // args.procs, (rank + 1) * args.batch // args.procs)
        optimizer.zero_grad()
        criterion(model(x[rows]), y[rows]).backward()
        optimizer.step()
    if rank == 0 and args.save:
        torch.save(net.state_dict(), args.save)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--procs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--uneven", action="store_true")
    parser.add_argument("--save", default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, args=(arguments, os.path.join(folder, "store")), nprocs=arguments.procs)
