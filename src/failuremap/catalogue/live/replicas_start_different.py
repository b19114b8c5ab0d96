"""Each rank seeds its model with its rank, and averages gradients over models that were never the same.

failuremap audit --nproc 2 -- replicas_start_different.py
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

torch.manual_seed(rank)
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
if FIXED:
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    tokens = torch.randint(32, (4, 9))
    logits = model(tokens[:, :-1]).flatten(0, 1)
    F.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world_size
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
