"""The accumulated gradient is all-reduced after each of three micro-batches.

failuremap audit --nproc 2 --unit example -- reduced_again.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
WINDOW = 3


def reduce_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(4):
    optimizer.zero_grad()
    for micro_batch in range(WINDOW):
        inputs, targets = torch.randn(8, 8), torch.randint(4, (8,))
        loss = F.cross_entropy(model(inputs), targets)
        (loss / (WINDOW * world_size)).backward()
        if not FIXED or micro_batch == WINDOW - 1:
            reduce_gradients(model)
    optimizer.step()
dist.destroy_process_group()
