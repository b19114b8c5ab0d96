"""Every forward runs under no_sync(), and the last backward of each window outside it, which is too late.

failuremap audit --nproc 2 --unit example -- forward_outside_sync_context.py
"""

import sys
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
ACCUMULATION = 2


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        optimizer.zero_grad()
        for micro_batch in range(ACCUMULATION):
            last = micro_batch == ACCUMULATION - 1
            inputs, targets = torch.randn(8, 8), torch.randint(4, (8,))
            with nullcontext() if FIXED and last else model.no_sync():
                loss = F.cross_entropy(model(inputs), targets) / ACCUMULATION
            with nullcontext() if last else model.no_sync():
                loss.backward()
        optimizer.step()


main()  # frees DDP before its process group ends
dist.destroy_process_group()
