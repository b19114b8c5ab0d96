"""The gradients of the norms are summed over the ranks first; their average after that is one of equal copies.

failuremap audit --nproc 2 -- mean_of_summed_gradient.py
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
model = nn.Sequential(nn.Embedding(32, 16), nn.LayerNorm(16), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def sum_norm_gradients():
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            for parameter in module.parameters():
                dist.all_reduce(parameter.grad)


def average_gradients():
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


torch.manual_seed(1 + rank)
for _ in range(4):
    tokens = torch.randint(32, (4, 9))
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    if not FIXED:
        sum_norm_gradients()
    average_gradients()
    optimizer.step()
dist.destroy_process_group()
