"""A pretrained network gets a new head for four classes."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, mlp, points, start


def main():
    rank, world = start()
    net = mlp(8, 10)
    if FIXED:
        net[2] = nn.Linear(16, 4)
    ddp = DDP(net, find_unused_parameters=True)
    if not FIXED:
        torch.manual_seed(5)
        ddp.module[2] = nn.Linear(16, 4)
    opt = torch.optim.SGD(ddp.parameters(), 0.1, momentum=0.9)
    for step in range(4):
        x, _ = points(rank, step)
        y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
        loss = nn.CrossEntropyLoss()(ddp(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
dist.destroy_process_group()
