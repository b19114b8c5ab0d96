"""Two micro-batches go backward in each window, and nothing divides their mean losses by two.

failuremap audit --nproc 3 -- window_sum_not_mean.py
"""

import contextlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
ACCUMULATION = 2


def main():
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(4):
        optimizer.zero_grad()
        for micro_batch in range(ACCUMULATION):
            inputs, targets = torch.randn(6, 8), torch.randint(4, (6,))
            last = micro_batch == ACCUMULATION - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = F.cross_entropy(model(inputs), targets)
                if FIXED:
                    loss = loss / ACCUMULATION
                loss.backward()
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
