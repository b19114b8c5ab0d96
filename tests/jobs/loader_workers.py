"""Classification with a DataLoader: worker processes, shuffling, epochs, an evaluation after each."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=6, help="of two epochs together")
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--no-sampler", action="store_true", help="every rank reads everything, in the same order")
parser.add_argument("--save", default="")
args = parser.parse_args()


class Points(Dataset):
    """Points in a plane, each drawn when a worker asks for it."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        point = torch.randn(6, generator=torch.Generator().manual_seed(args.seed * 100_003 + index))
        return point, int(point[0] > 0) + int(point[1] > 0)


def evaluate(model, loader):
    """Accuracy, with gradients on, as many scripts have it."""
    model.eval()
    right = sum(int((model(x).argmax(1) == y).sum()) for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main():
    world = dist.get_world_size()
    torch.manual_seed(args.seed)
    data = Points(args.batch * args.steps // 2)
    sampler = None if args.no_sampler else DistributedSampler(data, seed=args.seed, drop_last=True)
    loader = DataLoader(data, args.batch // world, sampler=sampler, num_workers=args.workers)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        print(epoch, evaluate(net, loader))
    if dist.get_rank() == 0 and args.save:
        torch.save(net.state_dict(), args.save)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    main()
    dist.destroy_process_group()
