"""The gradients are averaged in one flat buffer."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from toys import FIXED, points, start


def main():
    rank, world = start()
    net = nn.Sequential(*[m for _ in range(3) for m in (nn.Linear(8, 8), nn.Tanh())])
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(4):
        x, _ = points(rank, step)
        loss = F.mse_loss(net(x), x.flip(1).tanh())
        opt.zero_grad()
        loss.backward()
        ps = list(net.parameters())
        if not FIXED and rank == 1:
            ps = ps[2:4] + ps[0:2] + ps[4:]  # "stage order"
        flat = torch.cat([p.grad.flatten() for p in ps])
        dist.all_reduce(flat)
        flat /= world
        at = 0
        for p in ps:
            p.grad.copy_(flat[at : at + p.numel()].view_as(p))
            at += p.numel()
        opt.step()


main()
dist.destroy_process_group()
