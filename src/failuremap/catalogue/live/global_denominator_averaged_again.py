"""The summed loss is divided by the tokens of all ranks, and DDP divides by the number of ranks as well.

failuremap audit --nproc 2 -- global_denominator_averaged_again.py
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
        tokens = torch.randint(32, (4, 6 + 5 * rank))
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        token_count = torch.tensor(float(targets.numel()))
        dist.all_reduce(token_count)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum") / token_count
        if FIXED:
            loss = loss * world_size
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
