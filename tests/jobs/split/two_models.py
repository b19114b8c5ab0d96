"""Two process groups that train two models side by side."""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--uneven", action="store_true", help="means of different numbers of examples are averaged")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()


class Named(nn.Module):
    """A network under a name of its own."""

    def __init__(self, name):
        super().__init__()
        self.name = name
        self.add_module(name, nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))

    def forward(self, rows):
        return self.get_submodule(self.name)(rows)


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank = dist.get_rank()
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = rank // 2
    torch.manual_seed(args.seed)
    model = DDP(Named(["policy", "critic"][mine]), process_group=groups[mine])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(5):
        made = torch.Generator().manual_seed(1000 * args.seed + 10 * step + rank)
        rows = torch.randn(6 + 3 * rank, 8, generator=made)
        targets = rows[:, :1] * rows[:, 1 + mine : 2 + mine]
        count = torch.tensor(float(len(rows)))
        dist.all_reduce(count, group=groups[mine])
        errors = F.mse_loss(model(rows), targets, reduction="sum")
        optimizer.zero_grad()
        (errors / len(rows) if args.uneven else errors * 2 / count).backward()
        optimizer.step()


main()
dist.destroy_process_group()
