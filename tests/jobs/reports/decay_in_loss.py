"""Regression with weight decay as a term of the loss."""

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
        loss = F.mse_loss(net(x), y, reduction="sum") / (len(x) * world)
        l2 = 0.01 * sum(p.pow(2).sum() for p in net.parameters())
        loss = loss + (l2 / world if FIXED else l2)
        opt.zero_grad()
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
        opt.step()


main()
dist.destroy_process_group()
