"""A layer of experts, one on each rank; the rows go to them and back."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from toys import FIXED, points, start


class A2A(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous())
        return out

    @staticmethod
    def backward(ctx, g):
        out = torch.empty_like(g)
        dist.all_to_all_single(out, g.contiguous())
        return out


class MoE(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.inp = nn.Linear(8, 12)
        torch.manual_seed(100 + rank)
        self.expert = nn.Linear(12, 12)
        torch.manual_seed(3)
        self.out = nn.Linear(12, 1)

    def forward(self, x):
        h = torch.tanh(self.inp(x))  # first half of the rows to expert 0, the rest to expert 1
        h = A2A.apply(self.expert(A2A.apply(h)))
        return self.out(torch.tanh(h))


def main():
    rank, world = start()
    model = MoE(rank)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for step in range(4):
        x, y = points(rank, step)
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        for name, p in model.named_parameters():
            if "expert" in name:
                if FIXED:
                    p.grad /= world
            else:
                dist.all_reduce(p.grad)
                p.grad /= world
        opt.step()


main()
dist.destroy_process_group()
