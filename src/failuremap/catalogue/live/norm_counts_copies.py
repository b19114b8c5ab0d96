"""The squared norms are added up over ranks that hold full copies of the gradient, as if they were shards.

failuremap audit --nproc 2 -- norm_counts_copies.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def clip(parameters, max_norm, is_sharded):
    parameters = list(parameters)
    square = torch.nn.utils.get_total_norm([parameter.grad for parameter in parameters]).square()
    if is_sharded:
        dist.all_reduce(square)
    torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, square.sqrt())


def main():
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        tokens = torch.randint(32, (4, 9))
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        clip(model.parameters(), max_norm=0.25, is_sharded=not FIXED)
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
