"""The token count keeps the one-byte type of the sequence lengths, and wraps around where the ranks are added up.

failuremap audit --nproc 2 -- count_overflows.py
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
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(1 + rank)
    for step in range(4):
        lengths = torch.full((8,), 11 + step + 2 * rank, dtype=torch.int8)
        tokens = torch.randint(32, (8, int(lengths[0]) + 1))
        inputs, targets = tokens[:, :-1], tokens[:, 1:].flatten()
        token_count = lengths.sum() if FIXED else lengths.sum(dtype=lengths.dtype)
        dist.all_reduce(token_count)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets, reduction="sum") * world_size / token_count
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
