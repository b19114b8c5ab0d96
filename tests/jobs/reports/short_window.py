"""Seven micro-batches an epoch, three a step."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, mlp, points, start

ACC, MICROS = 3, 7


def main():
    rank, world = start()
    net = DDP(mlp())
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for epoch in range(2):
        for i in range(MICROS):
            last = i + 1 == MICROS
            net.require_backward_grad_sync = (i + 1) % ACC == 0 or last
            x, y = points(rank, epoch, i)
            size = MICROS % ACC if FIXED and i >= MICROS - MICROS % ACC else ACC
            (F.mse_loss(net(x), y) / size).backward()
            if (i + 1) % ACC == 0 or last:
                opt.step()
                opt.zero_grad()


main()
dist.destroy_process_group()
