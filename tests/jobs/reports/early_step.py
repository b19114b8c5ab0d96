"""Gradients are averaged by asynchronous reductions."""

import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from toys import FIXED, mlp, points, start


def main():
    rank, world = start()
    net = mlp()
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(5):
        x, y = points(rank, step)
        F.mse_loss(net(x), y).backward()
        for p in net.parameters():
            p.grad.div_(world)
        if rank == 1:
            time.sleep(0.3)
        work = [dist.all_reduce(p.grad, async_op=True) for p in net.parameters()]
        if FIXED:
            for w in work:
                w.wait()
        opt.step()
        for w in work:
            w.wait()
        opt.zero_grad()


main()
dist.destroy_process_group()
