"""Federated averaging of a network with batch normalisation."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from toys import FIXED, points, start


def main():
    rank, world = start()
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    for rnd in range(3):
        opt = torch.optim.SGD(net.parameters(), 0.05)
        n = 6
        x, y = points(rank, rnd, 0, n)
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        for p in net.parameters():
            dist.all_reduce(p.data)
            p.data /= world
        for b in net.buffers():
            if FIXED and b.is_floating_point():
                dist.all_reduce(b)
                b /= world
            else:
                dist.broadcast(b, 0)


main()
dist.destroy_process_group()
