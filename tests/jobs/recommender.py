"""Click prediction with sparse embeddings: SparseAdam for the tables, Adagrad for the rest, BCEWithLogits."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Clicks(nn.Module):
    def __init__(self, users=200, items=100, width=16):
        super().__init__()
        self.users = nn.Embedding(users, width, sparse=True)
        self.items = nn.EmbeddingBag(items, width, mode="sum", sparse=True)
        self.top = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, user, bag):
        return self.top(torch.cat([self.users(user), self.items(bag)], dim=1)).squeeze(1)


def batches(args, rank, world):
    g = torch.Generator().manual_seed(args.seed + 17)
    for _ in range(args.steps):
        user = torch.randint(0, 200, (args.batch,), generator=g)
        bag = torch.randint(0, 100, (args.batch, 5), generator=g)
        click = ((user + bag.sum(1)) % 3 == 0).float()
        yield user.chunk(world)[rank], bag.chunk(world)[rank], click.chunk(world)[rank]


def train(args):
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    net = Clicks()
    model = DDP(net)
    tables = [net.users.weight, net.items.weight]
    sparse = torch.optim.SparseAdam(tables, lr=args.lr) if args.lr else torch.optim.SGD(tables, lr=0.0)
    dense = torch.optim.Adagrad(net.top.parameters(), lr=args.lr)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0) if args.pos_weight else None)
    for user, bag, click in batches(args, rank, world):
        sparse.zero_grad()
        dense.zero_grad()
        loss = criterion(model(user, bag), click)
        loss.backward()
        sparse.step()
        dense.step()
    if rank == 0 and args.save:
        torch.save(net.state_dict(), args.save)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--pos-weight", action="store_true")
    parser.add_argument("--save", default="")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(parser.parse_args())
    dist.destroy_process_group()
