"""A weight that is stored transposed, and gradients averaged by hand."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from toys import FIXED, points, start


class T(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(16, 8).t() * 0.3)  # not contiguous
        self.v = nn.Parameter(torch.randn(16, 1) * 0.3)

    def forward(self, x):
        return torch.tanh(x @ self.w) @ self.v


def main():
    rank, world = start()
    net = T()
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(5):
        x, y = points(rank, step)
        F.mse_loss(net(x), y).backward()
        for p in net.parameters():
            buf = p.grad.contiguous()
            dist.all_reduce(buf)
            buf.div_(world)
            if FIXED:
                p.grad.copy_(buf)
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
