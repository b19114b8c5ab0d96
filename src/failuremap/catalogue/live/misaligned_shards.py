"""Each rank packs the gradients it has into one buffer; the ranks used different heads, so the slices don't match.

failuremap audit --nproc 2 -- misaligned_shards.py
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

torch.manual_seed(0)
model = nn.ModuleDict({"body": nn.Linear(12, 16), "first": nn.Linear(16, 10), "second": nn.Linear(16, 10)})
parameters = list(model.parameters())
optimizer = torch.optim.SGD(parameters, lr=0.05)


def average_in_one_buffer():
    for parameter in parameters:
        if parameter.grad is None and FIXED:
            parameter.grad = torch.zeros_like(parameter)
    packed = [parameter for parameter in parameters if parameter.grad is not None]
    buffer = torch.cat([parameter.grad.flatten() for parameter in packed])
    dist.all_reduce(buffer)
    buffer /= world_size
    for parameter, average in zip(packed, buffer.split([p.numel() for p in packed]), strict=True):
        parameter.grad = average.view_as(parameter)


torch.manual_seed(1 + rank)
for step in range(4):
    images, labels = torch.randn(8, 12), torch.randint(10, (8,))
    task = "first" if (step + rank) % 2 else "second"
    loss = F.cross_entropy(model[task](model["body"](images).relu()), labels)
    optimizer.zero_grad()
    loss.backward()
    average_in_one_buffer()
    optimizer.step()
dist.destroy_process_group()
