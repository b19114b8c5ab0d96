"""Each rank has a part of every sequence; the plan says so of all layers but the norm between them.

failuremap audit --nproc 2 -- partials_not_reduced.py
"""

import sys
from collections import OrderedDict

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

FIXED = "--fixed" in sys.argv


def main():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    plan = {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    if FIXED:
        plan["norm"] = SequenceParallel()

    torch.manual_seed(0)
    model = nn.Sequential(OrderedDict(embedding=nn.Embedding(32, 16), norm=nn.LayerNorm(16), head=nn.Linear(16, 32)))
    parallelize_module(model, mesh, plan)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        tokens = torch.randint(32, (4, 9))  # the ranks draw the same: they run one model
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
