"""Each rank clips its own gradient, and the ranks are averaged afterwards.

failuremap audit --nproc 2 -- clip_in_wrong_place.py
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


def average(parameters):
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(world_size)


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(4):
    # rank 1 reads repetitive text, whose gradients are longer
    tokens = torch.randint(32 if rank == 0 else 3, (4, 9))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    if FIXED:
        average(model.parameters())
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.25)
    if not FIXED:
        average(model.parameters())
    optimizer.step()
dist.destroy_process_group()
