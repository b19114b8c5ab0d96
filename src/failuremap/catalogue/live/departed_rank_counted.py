"""A rank runs out of batches and leaves; DDP's Join still divides by all ranks that started.

failuremap audit --nproc 2 --unit example -- departed_rank_counted.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 5)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    batch_count = 6 if rank == 0 else 4
    with Join([model], divide_by_initial_world_size=not FIXED):
        for _ in range(batch_count):
            inputs, targets = torch.randn(12, 8), torch.randint(5, (12,))
            loss = F.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
