"""Epochs over a data set whose length is no multiple of the window, one process or DDP. Full rows."""

import argparse
import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


def dataset(args):
    g = torch.Generator().manual_seed(args.seed)
    tokens = torch.randint(0, 128, (args.rows, 17), generator=g)
    tokens[:, 1::2] = (tokens[:, :-1:2] + 1) % 128
    return TensorDataset(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(128, 32)
        self.rnn = nn.GRU(32, 32, batch_first=True)
        self.out = nn.Linear(32, 128)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def train(args):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.manual_seed(args.seed)
    net = Model()
    model = DDP(net) if world > 1 else net
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    data = dataset(args)
    own = torch.utils.data.Subset(data, [i for i in range(args.rows) if i % world == rank])
    loader = DataLoader(own, batch_size=args.micro // world)
    for _ in range(args.epochs):
        for i, (x, y) in enumerate(loader):
            last = (i + 1) % args.accum == 0 or i + 1 == len(loader)
            first = i // args.accum * args.accum
            size = args.accum if args.full_divisor else min(args.accum, len(loader) - first)
            with model.no_sync() if world > 1 and not last else contextlib.nullcontext():
                loss = criterion(model(x).flatten(0, 1), y.flatten()) / size
                loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
    if rank == 0 and args.save:
        torch.save(net.state_dict(), args.save)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=84, help="of the data set")
    parser.add_argument("--micro", type=int, default=12, help="rows of a micro-batch over all ranks")
    parser.add_argument("--accum", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--full-divisor", action="store_true")
    parser.add_argument("--save", default="")
    torch.set_num_threads(1)
    if int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("gloo")
    train(parser.parse_args())
    if dist.is_initialized():
        dist.destroy_process_group()
