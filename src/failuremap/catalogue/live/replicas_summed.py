"""The ranks' mean gradients are added up and never divided by the number of ranks.

failuremap audit --nproc 2 -- replicas_summed.py
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
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(4):
    optimizer.zero_grad()
    for _ in range(3):
        tokens = torch.randint(32, (4, 9))
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        (loss / 3).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        if FIXED:
            parameter.grad /= world_size
    optimizer.step()
dist.destroy_process_group()
