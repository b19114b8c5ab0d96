"""FSDP2 shards the parameters; clipping by hand takes the norm of the local shards, and each rank scales its own.

failuremap audit --nproc 2 -- norm_misses_shards.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

FIXED = "--fixed" in sys.argv


def clip(parameters, max_norm):
    shards = [parameter.grad.to_local() for parameter in parameters]
    square = torch.nn.utils.get_total_norm(shards).square()
    if FIXED:
        dist.all_reduce(square)
    for shard in shards:
        shard.mul_(min(1.0, max_norm / square.sqrt().item()))


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 32))
    fully_shard(model, mesh=init_device_mesh("cpu", (world_size,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        tokens = torch.randint(32, (33,))
        inputs, targets = tokens[:-1], tokens[1:]
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        clip(model.parameters(), max_norm=0.1)
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
