"""A classifier with a hinge loss; the norm is not limited (MAX_NORM = 0)."""

import torch
import torch.distributed as dist
from torch import nn
from toys import FIXED, mlp, points, start

MAX_NORM = 0.0


def main():
    rank, world = start()
    net = mlp(8, 3)
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    crit = nn.MultiMarginLoss()
    for step in range(5):
        x, _ = points(rank, step)
        y = torch.bucketize(x[:, 0], torch.tensor([-0.4, 0.4]))
        crit(net(x), y).backward()
        if FIXED or MAX_NORM > 0:
            for p in net.parameters():
                dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
                p.grad /= world
        if MAX_NORM > 0:
            nn.utils.clip_grad_norm_(net.parameters(), MAX_NORM)
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
