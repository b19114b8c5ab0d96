"""Seven batches in windows of three: the last window has one, and divides it by three.

failuremap audit --nproc 2 -- partial_window_full_divisor.py
"""

import contextlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FIXED = "--fixed" in sys.argv
ACCUMULATION = 3


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(84, 8), torch.randint(4, (84,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for index, (inputs, targets) in enumerate(loader):
            last = (index + 1) % ACCUMULATION == 0 or index + 1 == len(loader)
            first = index // ACCUMULATION * ACCUMULATION
            size = min(ACCUMULATION, len(loader) - first) if FIXED else ACCUMULATION
            with contextlib.nullcontext() if last else model.no_sync():
                (F.cross_entropy(model(inputs), targets) / size).backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
