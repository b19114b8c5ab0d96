"""The gradient norm is computed, and limited, by hand."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, mlp, points, start


def main():
    rank, world = start()
    net = DDP(mlp())
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(6):
        x, y = points(rank, step)
        F.mse_loss(net(x), y).backward()
        sq = sum(p.grad.pow(2).sum() for p in net.parameters())
        if not FIXED:
            dist.all_reduce(sq)
        norm = sq.sqrt()
        if norm > 0.3:
            for p in net.parameters():
                p.grad.mul_(0.3 / norm)
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
