"""A rank goes away in the middle of a step; the others print what they are left with, as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import sys

import torch
import torch.distributed as dist
from cases import features, refusal, weights
from models import wrapped
from scenarios import Scenario

from failuremap import attach

torch.set_num_threads(1)
dist.init_process_group("gloo")
options = ("small_buckets",) if sys.argv[1] == "ddp" else ()
model = wrapped(Scenario("", sys.argv[1], options=options))
handle = attach(model, "mean")
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
for _ in range(2):
    optimizer.zero_grad()
    handle.backward(model(*features()).mean())
    handle.step()
    optimizer.step()
before = weights(model)
optimizer.zero_grad()
loss = model(*features()).mean()
if dist.get_rank() == dist.get_world_size() - 1:
    os._exit(0)
said = []
with contextlib.suppress(RuntimeError):  # gloo's own error
    handle.backward(loss)
said.append(refusal(optimizer.step))
said.append(refusal(handle.step))
optimizer.step()
held = sum(p.grad is not None for p in model.parameters())
answer = {"rank": dist.get_rank(), "said": said, "gradients": held, "kept": weights(model) == before}
print(json.dumps(answer), flush=True)
os._exit(0)
