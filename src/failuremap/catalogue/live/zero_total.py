"""A masked mean is 0/0 on a rank whose batch holds no token to learn from, and nan reaches every parameter.

failuremap audit --nproc 2 -- zero_total.py
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
    for step in range(4):
        tokens = torch.randint(32, (4, 9))
        inputs, targets = tokens[:, :-1], tokens[:, 1:].flatten()
        is_answer = torch.ones(len(targets))
        if step == 2:  # the answers of rank 1 were cut off by the maximum length
            is_answer[:] = float(rank == 0)
        losses = F.cross_entropy(model(inputs).flatten(0, 1), targets, reduction="none")
        token_count = is_answer.sum()
        if FIXED:
            dist.all_reduce(token_count)
            loss = (losses * is_answer).sum() * world_size / token_count.clamp(min=1)
        else:
            loss = (losses * is_answer).sum() / token_count
        optimizer.zero_grad()
        loss.backward()
        if not FIXED or token_count > 0:
            optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
