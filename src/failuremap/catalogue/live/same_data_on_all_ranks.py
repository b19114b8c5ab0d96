"""The loader shuffles with the seed that all ranks share, and has no distributed sampler.

failuremap audit --nproc 2 -- same_data_on_all_ranks.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FIXED = "--fixed" in sys.argv


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(32, 8), torch.randint(4, (32,)))
    sampler = DistributedSampler(data) if FIXED else None
    loader = DataLoader(data, batch_size=8, shuffle=sampler is None, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        if FIXED:
            sampler.set_epoch(epoch)
        for inputs, targets in loader:
            loss = F.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
