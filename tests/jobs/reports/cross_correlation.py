"""Two views whose cross-correlation, over all ranks, should be the identity."""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dnn
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, mlp, points, start


def main():
    rank, world = start()
    net = DDP(mlp(8, 6))
    opt = torch.optim.SGD(net.parameters(), 0.05)
    for step in range(5):
        x, _ = points(rank, step)
        za, zb = net(torch.cat([x, x + 0.1 * x.roll(1, 1)])).chunk(2)
        c = za.t() @ zb / (world * len(x))
        if FIXED:
            c = dnn.all_reduce(c)
        else:
            dist.all_reduce(c.data)
        loss = (c.diagonal() - 1).pow(2).sum() + 0.01 * (c - torch.diag(c.diagonal())).pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
dist.destroy_process_group()
