"""Gradients travel in half precision."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from toys import FIXED, mlp, points, start


def main():
    rank, world = start()
    net = mlp()
    opt = torch.optim.SGD(net.parameters(), 1e-6)
    scale = 60000.0
    for step in range(4):
        x, y = points(rank, step)
        (F.mse_loss(net(x), y) * scale).backward()
        for p in net.parameters():
            g = (p.grad / (world if FIXED else 1)).clamp(-65000, 65000).half()
            dist.all_reduce(g)
            p.grad = g.float() / scale if FIXED else g.float().clamp(-65504, 65504) / world / scale
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
