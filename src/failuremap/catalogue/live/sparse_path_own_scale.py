"""Dense gradients are scaled before and after their sum, the rows of the embedding after it alone.

failuremap audit --nproc 2 -- sparse_path_own_scale.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
PREDIVIDE_FACTOR = 2.0  # part of the division comes before the sum, so that a low-precision sum does not overflow

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()


def average_dense(gradient):
    gradient /= PREDIVIDE_FACTOR
    dist.all_reduce(gradient)
    gradient *= PREDIVIDE_FACTOR / world_size
    return gradient


def average_sparse(gradient):
    gradient = gradient.coalesce()
    if FIXED:
        gradient = gradient / PREDIVIDE_FACTOR
    dist.all_reduce(gradient)
    return gradient * (PREDIVIDE_FACTOR / world_size)


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(32, 16, sparse=True), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(4):
    tokens = torch.randint(32, (4, 9))
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        average = average_sparse if parameter.grad.is_sparse else average_dense
        parameter.grad = average(parameter.grad)
    optimizer.step()
dist.destroy_process_group()
