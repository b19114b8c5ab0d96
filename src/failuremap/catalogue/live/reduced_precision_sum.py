"""The ranks' micro-batches are added up in bfloat16, in which a small one is rounded away beside a large sum.

failuremap audit --nproc 2 -- reduced_precision_sum.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

ACCUMULATE_IN = torch.float32 if "--fixed" in sys.argv else torch.bfloat16
WINDOW = 24
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(3):
    sums = [torch.zeros_like(parameter, dtype=ACCUMULATE_IN) for parameter in model.parameters()]
    for _ in range(WINDOW):
        tokens = torch.randint(32, (2, 9))
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()) / WINDOW / world_size
        model.zero_grad()
        loss.backward()
        for total, parameter in zip(sums, model.parameters(), strict=True):
            total.add_(parameter.grad)
    for total, parameter in zip(sums, model.parameters(), strict=True):
        dist.all_reduce(total)
        parameter.grad.copy_(total)
    optimizer.step()
dist.destroy_process_group()
