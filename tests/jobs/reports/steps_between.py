"""Accumulation with AdamW."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, mlp, points, start

ACC = 3


def main():
    rank, world = start()
    net = DDP(mlp())
    opt = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.1)
    for step in range(4):
        for m in range(ACC):
            x, y = points(rank, step, m)
            (F.mse_loss(net(x), y) / ACC).backward()
            if not FIXED and m < ACC - 1:
                for g in opt.param_groups:
                    g["lr"] = 0.0
                opt.step()
                for g in opt.param_groups:
                    g["lr"] = 1e-3
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
