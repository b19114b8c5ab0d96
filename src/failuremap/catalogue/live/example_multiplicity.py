"""DistributedSampler pads fifteen examples to sixteen: in each epoch one of them is read on both ranks.

failuremap audit --nproc 2 -- example_multiplicity.py
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
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(15, 8), torch.randint(4, (15,)))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        if FIXED:
            order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
            sampler = order[rank::world_size].tolist()
        else:
            sampler = DistributedSampler(data)
            sampler.set_epoch(epoch)
        for inputs, targets in DataLoader(data, batch_size=4, sampler=sampler):
            example_count = torch.tensor(float(len(targets)))
            dist.all_reduce(example_count)
            loss = F.cross_entropy(model(inputs), targets, reduction="sum") * world_size / example_count
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
