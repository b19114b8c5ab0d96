"""The exponential average of the weights is updated after every micro-batch of a window.

failuremap audit --nproc 2 -- state_advances_per_microbatch.py
"""

import contextlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

FIXED = "--fixed" in sys.argv
ACCUMULATION = 3


def main():
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    averaged = AveragedModel(model.module, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + dist.get_rank())
    for index in range(4 * ACCUMULATION):
        inputs, targets = torch.randn(6, 8), torch.randint(4, (6,))
        last = (index + 1) % ACCUMULATION == 0
        with contextlib.nullcontext() if last else model.no_sync():
            (F.cross_entropy(model(inputs), targets) / ACCUMULATION).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
        if last or not FIXED:
            averaged.update_parameters(model.module)


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
