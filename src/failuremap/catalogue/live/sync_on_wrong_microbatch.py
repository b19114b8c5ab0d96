"""The switch of no_sync() counts the micro-batches from 0, and lets the first of each window through.

failuremap audit --nproc 2 --unit example -- sync_on_wrong_microbatch.py
"""

import contextlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
ACCUMULATION = 3


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    batches = [(torch.randn(8, 8), torch.randint(4, (8,))) for _ in range(12)]
    for number, (inputs, targets) in enumerate(batches):
        steps = (number + 1) % ACCUMULATION == 0
        synchronise = steps if FIXED else number % ACCUMULATION == 0
        with contextlib.nullcontext() if synchronise else model.no_sync():
            loss = F.cross_entropy(model(inputs), targets)
            (loss / ACCUMULATION).backward()
        if steps:
            optimizer.step()
            optimizer.zero_grad()


main()  # frees DDP before its process group ends
dist.destroy_process_group()
