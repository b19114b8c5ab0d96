"""Clips plain gradients and DTensors of several meshes together, and prints norms and results as JSON."""

from __future__ import annotations

import json
import math

import torch
import torch.distributed as dist
from models import whole
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from failuremap import InvalidArgument, StepVoid, clip_grad_norm_

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
line = init_device_mesh("cpu", (world,))
grid = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("replicas", "shards"))
PLACEMENTS = {
    "plain": None,
    "sharded": (line, [Shard(0)]),
    "replicated": (line, [Replicate()]),
    "replicas of shards": (grid, [Replicate(), Shard(0)]),
    "shards of columns": (grid, [Shard(0), Shard(1)]),
    "replicated twice": (grid, [Replicate(), Replicate()]),
}


def parameters(names: list[str]) -> list[nn.Parameter]:
    """Return a parameter for each name, with the same logical gradient on every rank; 5 rows don't divide evenly."""
    made = []
    for index, name in enumerate(names):
        gradient = torch.arange(20.0).reshape(5, 4) - index
        value = torch.zeros(5, 4)
        if PLACEMENTS[name]:
            mesh, placements = PLACEMENTS[name]
            value, gradient = (distribute_tensor(tensor, mesh, placements) for tensor in (value, gradient))
        made.append(nn.Parameter(value))
        made[-1].grad = gradient
    return made


def clipped(names: list[str], max_norm: float, norm_type: float) -> dict[str, object]:
    """Clip and return the norm before, and the numbers after."""
    used = parameters(names)
    norm = clip_grad_norm_(used, max_norm, norm_type)
    return {"norm": float(norm), "after": [whole(parameter.grad) for parameter in used]}


results: dict[str, object] = {"rank": rank}
for name in PLACEMENTS:
    results[name] = clipped([name], 1.0, 2.0)
for norm_type in (1.0, 2.0, 3.5, math.inf):
    results[f"all {norm_type}"] = clipped(list(PLACEMENTS), 2.0, norm_type)
results["not clipped"] = clipped(list(PLACEMENTS), 1e6, 2.0)

without = parameters(["sharded", "plain"])
if rank:
    without[0].grad = None
without[1].grad = None
results["a gradient on one rank"] = float(clip_grad_norm_(without, 1e6))
results["none"] = float(clip_grad_norm_([], 1.0))

sparse = nn.Parameter(torch.zeros(3, 2))
sparse.grad = torch.sparse_coo_tensor([[1, 1]], [[1.0, 2.0], [2.0, 2.0]], (3, 2), check_invariants=True)
results["sparse"] = float(clip_grad_norm_(sparse, 1.0))
results["sparse after"] = whole(sparse.grad)

broken = parameters(["plain"])
broken[0].grad[0, 0] = math.inf
for options in ({"error_if_nonfinite": True}, {}):
    try:
        results[f"infinite {options}"] = str(float(clip_grad_norm_(broken, 1.0, **options)))
    except StepVoid as refused:
        results[f"infinite {options}"] = str(refused)
results["infinite after"] = bool(broken[0].grad.isnan().any())

pending = nn.Parameter(distribute_tensor(torch.zeros(2), line, [Replicate()]))
pending.grad = DTensor.from_local(torch.ones(2), line, [Partial()])
for arguments in ((pending, 1.0), (sparse, 0.0), (sparse, True), (sparse, 1.0, -1)):
    try:
        results.setdefault("refused", []).append(float(clip_grad_norm_(*arguments)))
    except InvalidArgument as refused:
        results.setdefault("refused", []).append(str(refused))

try:
    torch.nn.utils.clip_grad_norm_(parameters(list(PLACEMENTS)), 1.0)
except RuntimeError as failed:
    results["torch's own"] = str(failed)
shards = parameters(["replicas of shards"])[0].grad.to_local()
naive = shards.square().sum()
dist.all_reduce(naive)
results["squares of all ranks"] = float(naive.sqrt())
print(json.dumps(results), flush=True)
dist.destroy_process_group()
