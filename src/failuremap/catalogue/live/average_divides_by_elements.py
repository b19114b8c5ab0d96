"""The average of a tensor over the ranks is divided by the number of its elements, not by that of the ranks.

failuremap audit --nproc 2 -- average_divides_by_elements.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()


def average_over_ranks(tensor):
    dist.all_reduce(tensor)
    tensor /= world_size if FIXED else tensor.numel()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + rank)
for _ in range(4):
    images, labels = torch.randn(8, 12), torch.randint(10, (8,))
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        average_over_ranks(parameter.grad)
    optimizer.step()
dist.destroy_process_group()
