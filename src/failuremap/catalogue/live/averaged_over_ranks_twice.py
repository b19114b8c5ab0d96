"""DDP averages the gradients over the ranks, and the loop divides them by the number of ranks again.

failuremap audit --nproc 2 -- averaged_over_ranks_twice.py
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
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        images, labels = torch.randn(8, 12), torch.randint(10, (8,))
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        if not FIXED:
            for parameter in model.parameters():
                parameter.grad /= world_size
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
