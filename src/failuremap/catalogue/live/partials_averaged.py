"""Each rank holds a part of every sequence; its gradient is a part of the sum, and the parts are averaged.

failuremap audit --nproc 2 --promise sum -- partials_averaged.py
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
for _ in range(4):
    sequences = torch.randint(32, (4, 17))
    inputs, targets = sequences[:, :-1], sequences[:, 1:]
    own_inputs, own_targets = inputs.chunk(world_size, dim=1)[rank], targets.chunk(world_size, dim=1)[rank]
    logits = model(own_inputs)
    loss = F.cross_entropy(logits.flatten(0, 1), own_targets.flatten(), reduction="sum")
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        if not FIXED:
            parameter.grad /= world_size
    optimizer.step()
dist.destroy_process_group()
