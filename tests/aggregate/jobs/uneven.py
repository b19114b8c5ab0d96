"""Ranks with different numbers of steps, under Join; prints what each step was, as JSON."""

from __future__ import annotations

import json
import sys

import torch
import torch.distributed as dist
from models import gradients
from scenarios import unit
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

import failuremap


class First(nn.Module):
    """One linear layer, named as `gradients` expects."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(7, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the losses."""
        return self.first(x)


torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
rule, exact, plain = sys.argv[1], "exact" in sys.argv, "plain" in sys.argv
model = DistributedDataParallel(First())
loss = "mean" if rule == "weighted_mean" else None
handle = None if plain else failuremap.attach(model, rule, loss=loss, exact=exact)
for epoch in range(2):
    with Join([model]):
        for step in range(2 * rank + 1 if epoch == 0 else 2):  # in the second epoch all have as much
            count = rank + step + 1
            features = torch.tensor([unit(rank, step, index) for index in range(count)]).float()
            model.zero_grad()
            mean = model(features).mean()
            if handle is None:
                mean.backward()
            else:
                handle.backward(mean, *([count] if loss else []))
                handle.step()
            said = {"counts": handle.report.counts, "joined": handle.report.joined} if handle else {}
            print(json.dumps({"epoch": epoch, "step": step, "rank": rank, **gradients(model), **said}), flush=True)
dist.destroy_process_group()
