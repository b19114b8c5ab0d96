"""Ranks are summed node by node; the last node holds fewer ranks than the others, and the division loses it.

failuremap audit --nproc 3 -- rank_dropped.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
torch.set_num_threads(1)
dist.init_process_group("gloo")
PER_NODE = 2
rank, world_size = dist.get_rank(), dist.get_world_size()
node_count = -(-world_size // PER_NODE) if FIXED else world_size // PER_NODE
members = [range(world_size)[first : first + PER_NODE] for first in range(0, world_size, PER_NODE)]
nodes = [dist.new_group(list(ranks)) for ranks in members[:node_count]]
leaders = dist.new_group([ranks[0] for ranks in members[:node_count]])

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)


def add_up(gradient):
    node = rank // PER_NODE
    if node < node_count:
        dist.reduce(gradient, dst=members[node][0], group=nodes[node])
        if rank == members[node][0]:
            dist.all_reduce(gradient, group=leaders)
    dist.broadcast(gradient, src=0)


for _ in range(4):
    tokens = torch.randint(32, (4, 9))
    logits = model(tokens[:, :-1]).flatten(0, 1)
    F.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
    for parameter in model.parameters():
        add_up(parameter.grad)
        parameter.grad /= world_size
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
