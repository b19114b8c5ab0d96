"""Accumulation, with the reduction in a function of its own."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from toys import FIXED, mlp, points, start

ACC = 3


def main():
    rank, world = start()
    net = mlp()
    opt = torch.optim.SGD(net.parameters(), 0.1)

    def reduce():
        for p in net.parameters():
            dist.all_reduce(p.grad)

    for step in range(4):
        for m in range(ACC):
            x, y = points(rank, step, m)
            (F.mse_loss(net(x), y) / (ACC * world)).backward()
            if not FIXED:
                reduce()
        if FIXED:
            reduce()
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
