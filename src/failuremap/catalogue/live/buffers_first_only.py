"""The ranks average their gradients, and the model that is saved has the first rank's running statistics.

failuremap audit --nproc 2 --unit example -- buffers_first_only.py
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


def average_buffers(model):
    for buffer in model.buffers():
        if buffer.is_floating_point():
            dist.all_reduce(buffer)
            buffer /= world_size
        else:
            dist.all_reduce(buffer, op=dist.ReduceOp.MAX)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(4):
    inputs, targets = torch.randn(8, 8) + 3 * rank, torch.randint(4, (8,))
    loss = F.cross_entropy(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world_size
    optimizer.step()
if FIXED:
    average_buffers(model)
if rank == 0:
    saved = model.state_dict()
    print(f"mean of the saved running mean: {saved['1.running_mean'].mean():.3f}")
dist.destroy_process_group()
