"""Trains eight uneven micro-batches a step on any number of ranks, and prints a hash of the weights.

same_bits.py WRAPPER [exact]    ddp (micro-batches kept back), ddp-each, fsdp, hsdp or plain
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys

import torch
import torch.distributed as dist
from models import whole
from scenarios import Scenario
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import failuremap

MICRO_BATCHES, STEPS = 8, 5


class Net(nn.Module):
    """A small network with a hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 33), nn.Linear(33, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        return self.second(torch.tanh(self.first(x)))


def wrap(model: nn.Module, kind: str) -> nn.Module:
    """Return the model in its wrapper."""
    from models import sharded

    if kind == "plain":
        return model
    return DistributedDataParallel(model) if kind.startswith("ddp") else sharded(model, Scenario("", kind))


torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
kind, exact = sys.argv[1], "exact" in sys.argv
torch.manual_seed(0)
model = wrap(Net(), kind)
handle = failuremap.attach(model, loss="mean", exact=exact)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
for step in range(STEPS):
    optimizer.zero_grad()
    mine = range(rank, MICRO_BATCHES, world)
    for micro_batch in mine:
        generator = torch.Generator().manual_seed(100 * step + micro_batch)
        size = 1 + micro_batch * 3 % 7
        x, y = torch.randn(size, 6, generator=generator), torch.randint(0, 4, (size,), generator=generator)
        kept_back = kind == "ddp" and micro_batch != mine[-1]
        with model.no_sync() if kept_back else contextlib.nullcontext():
            handle.backward(nn.functional.cross_entropy(model(x), y), count=size)
    handle.step()
    optimizer.step()
numbers = [whole(parameter.detach()) for parameter in model.parameters()]
digest = hashlib.sha256(json.dumps(numbers).encode()).hexdigest()
print(json.dumps({"rank": rank, "hash": digest}), flush=True)
dist.destroy_process_group()
