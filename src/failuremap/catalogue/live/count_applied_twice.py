"""A hook weighs each rank's gradient by its token count; the loss is a sum, which holds the count already.

failuremap audit --nproc 2 -- count_applied_twice.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()


def weighted_all_reduce(parameters, token_count):
    total = torch.tensor(float(token_count))
    dist.all_reduce(total)
    for parameter in parameters:
        parameter.grad.mul_(token_count / total)
        dist.all_reduce(parameter.grad)


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(1 + rank)
for _ in range(4):
    tokens = torch.randint(32, (4, 6 + 5 * rank))
    inputs, targets = tokens[:, :-1], tokens[:, 1:].flatten()
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets, reduction="mean" if FIXED else "sum")
    optimizer.zero_grad()
    loss.backward()
    weighted_all_reduce(model.parameters(), targets.numel())
    optimizer.step()
dist.destroy_process_group()
