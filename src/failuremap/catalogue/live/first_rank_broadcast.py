"""The gradients are broadcast from rank 0, so that the replicas stay equal; no other rank's gradient is used.

failuremap audit --nproc 2 -- first_rank_broadcast.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
torch.set_num_threads(1)
dist.init_process_group("gloo")
world_size = dist.get_world_size()

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(4):
    tokens = torch.randint(32, (4, 9))
    logits = model(tokens[:, :-1]).flatten(0, 1)
    F.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
    for parameter in model.parameters():
        if FIXED:
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size
        else:
            dist.broadcast(parameter.grad, src=0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
