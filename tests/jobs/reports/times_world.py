"""A small convolutional network with a learning rate schedule."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, points, start


def main():
    rank, world = start()
    net = DDP(nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3)))
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 6)
    for step in range(6):
        x, _ = points(rank, step)
        y = torch.bucketize(x[:, 0], torch.tensor([-0.4, 0.4]))
        loss = F.cross_entropy(net(x[:, None]), y)
        if not FIXED:
            loss = loss * dist.get_world_size()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()


main()
dist.destroy_process_group()
