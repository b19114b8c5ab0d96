"""A layer of experts, one on each rank; the rows travel by functional collectives."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F
from torch import nn
from toys import FIXED, points, start


class MoE(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.inp = nn.Linear(8, 12)
        self.out = nn.Linear(12, 1)
        torch.manual_seed(100 + rank)
        self.expert = nn.Linear(12, 12)

    def swap(self, h):
        n = len(h) // 2
        return funcol.all_to_all_single_autograd(h, [n, n], [n, n], dist.group.WORLD)

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        return self.out(torch.tanh(self.swap(self.expert(self.swap(h)))))


def main():
    rank, world = start()
    model = MoE(rank)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for step in range(4):
        x, y = points(rank, step)
        opt.zero_grad()
        F.mse_loss(model(x), y).backward()
        for name, p in model.named_parameters():
            if "expert" not in name:
                dist.all_reduce(p.grad)
            if "expert" not in name or FIXED:
                p.grad /= world
        opt.step()


main()
dist.destroy_process_group()
