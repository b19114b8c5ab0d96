"""The gradient is a mean over all tokens; the printed loss is the first rank's own.

failuremap audit --nproc 2 -- metric_reduction.py
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
        tokens = torch.randint(32, (4, 6 + 5 * rank))
        targets = tokens[:, 1:].flatten()
        token_count = torch.tensor(float(targets.numel()))
        dist.all_reduce(token_count)
        loss_sum = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), targets, reduction="sum")
        optimizer.zero_grad()
        (loss_sum * world_size / token_count).backward()
        optimizer.step()
        shown, count = loss_sum.detach(), torch.tensor(float(targets.numel()))
        if FIXED:
            dist.all_reduce(shown)
            dist.all_reduce(count)
        if rank == 0:
            print(f"step {step}: loss {float(shown / count):.4f}")


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
