"""Micro-batches are packed to like token counts; their token means are weighted by their sequences.

failuremap audit --nproc 2 -- weight_kind_mismatch.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        sequences = torch.randint(32, (6, 5)) if rank == 0 else torch.randint(32, (2, 13))
        inputs, targets = sequences[:, :-1], sequences[:, 1:]
        weight = torch.tensor(float(targets.numel() if FIXED else len(targets)))
        total = weight.clone()
        dist.all_reduce(total)
        loss = F.cross_entropy(model(inputs).transpose(1, 2), targets) * weight * world_size / total
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
