"""Two data-parallel replicas are split over two ranks each by sequence; the sum is divided by all four ranks.

failuremap audit --nproc 4 -- group_divisor_mismatch.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
SEQUENCE_PARALLEL = 2

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
replica, part = divmod(rank, SEQUENCE_PARALLEL)
replica_count = world_size // SEQUENCE_PARALLEL
sequence_groups = [dist.new_group([first, first + 1]) for first in range(0, world_size, SEQUENCE_PARALLEL)]

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + replica)
for _ in range(4):
    sequences = torch.randint(32, (4, 17))
    inputs, targets = (side.chunk(SEQUENCE_PARALLEL, dim=1)[part] for side in (sequences[:, :-1], sequences[:, 1:]))
    token_count = torch.tensor(float(targets.numel()))
    dist.all_reduce(token_count, group=sequence_groups[replica])
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum") / token_count
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= replica_count if FIXED else world_size
    optimizer.step()
dist.destroy_process_group()
