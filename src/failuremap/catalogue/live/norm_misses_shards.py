"""Each rank steps on its share of the parameters, and clips it by the norm of that share alone.

failuremap audit --nproc 2 -- norm_misses_shards.py
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
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 32))
owners = [(parameter, index % world_size) for index, parameter in enumerate(model.parameters())]
mine = [parameter for parameter, owner in owners if owner == rank]
optimizer = torch.optim.SGD(mine, lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(4):
    tokens = torch.randint(32, (4, 9))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()) / world_size
    model.zero_grad()
    loss.backward()
    for parameter, owner in owners:
        dist.reduce(parameter.grad, dst=owner)
    square = torch.nn.utils.get_total_norm([parameter.grad for parameter in mine]).square()
    if FIXED:
        dist.all_reduce(square)
    torch.nn.utils.clip_grads_with_norm_(mine, 0.25, square.sqrt())
    optimizer.step()
    for parameter, owner in owners:
        dist.broadcast(parameter.detach(), src=owner)
dist.destroy_process_group()
