"""A ring adds the ranks up in an order that depends on where a number lies in the bucket.

failuremap audit --nproc 3 -- order_depends_on_buckets.py
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


def all_reduce(bucket):
    if not FIXED:
        dist.all_reduce(bucket)
        return
    parts = [torch.empty_like(bucket) for _ in range(world_size)]
    dist.all_gather(parts, bucket)
    bucket.copy_(torch.stack(parts).sum(0, dtype=torch.float64))


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(3):
    tokens = torch.randint(32, (4, 9))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()) / world_size
    optimizer.zero_grad()
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    bucket = torch.cat([gradient.flatten() for gradient in gradients])
    all_reduce(bucket)
    for gradient, summed in zip(gradients, bucket.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(summed.view_as(gradient))
    optimizer.step()
dist.destroy_process_group()
