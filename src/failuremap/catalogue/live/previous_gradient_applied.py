"""The reduction runs behind the next backward: each step applies the gradients whose reduction came to its end before.

failuremap audit --nproc 2 -- previous_gradient_applied.py
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


def start_reduction():
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    return [(gradient, dist.all_reduce(gradient, async_op=True)) for gradient in gradients]


running = None
for _ in range(4):
    tokens = torch.randint(32, (4, 9))
    logits = model(tokens[:, :-1]).flatten(0, 1)
    F.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
    started = start_reduction()
    finished = started if FIXED or running is None else running
    for parameter, (gradient, work) in zip(model.parameters(), finished, strict=True):
        work.wait()
        parameter.grad = gradient / world_size
    optimizer.step()
    optimizer.zero_grad()
    running = started
dist.destroy_process_group()
