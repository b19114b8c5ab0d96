"""A model whose gradients are whole numbers, and its wrappers."""

from __future__ import annotations

import functools

import torch
import torch.distributed as dist
from scenarios import FEATURES, ROWS, Scenario, row_of, unit
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel


class Layer(nn.Module):
    """A weight, and a bias that FSDP shards with it."""

    def __init__(self, inputs: int, outputs: int, bias: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return one number for each unit."""
        return self.linear(x).sum(1)


class Model(nn.Module):
    """The loss of each unit: linear in every weight."""

    def __init__(self, sparse: bool = False) -> None:
        super().__init__()
        self.first = Layer(3, 2, bias=False)
        self.second = Layer(FEATURES - 3, 1, bias=True)
        if sparse:
            self.table = nn.Embedding(ROWS, 2, sparse=True)

    def forward(self, x: Tensor, rows: Tensor, leaves_out: bool = False) -> Tensor:
        """Return the losses."""
        losses = self.first(x[:, :3])
        if not leaves_out:
            losses = losses + self.second(x[:, 3:])
        if hasattr(self, "table"):
            losses = losses + self.table(rows).sum(1)
        return losses


def wrapped(scenario: Scenario) -> nn.Module:
    """Return a new model in the scenario's wrapper; weights are 0, so that every loss is 0 or NaN."""
    model = Model(scenario.sparse).to(getattr(torch, scenario.dtype))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    if scenario.wrapper == "plain":
        return model
    if scenario.wrapper == "ddp":
        options = {option: True for option in scenario.options if option != "small_buckets"}
        if "small_buckets" in scenario.options:
            options["bucket_cap_mb"] = 1e-6
        return DistributedDataParallel(model, **options)
    return sharded(model, scenario)


@functools.cache
def mesh_of(wrapper: str, shard_count: int) -> DeviceMesh:
    """Return a mesh over all ranks; made once, for it makes process groups."""
    ranks = dist.get_world_size()
    if wrapper == "fsdp":
        return init_device_mesh("cpu", (ranks,))
    return init_device_mesh("cpu", (ranks // shard_count, shard_count), mesh_dim_names=("replicas", "shards"))


def sharded(model: nn.Module, scenario: Scenario) -> nn.Module:
    """Shard the model, over all ranks or, for HSDP, over halves of them."""
    shard_count = 1 if "replicas_alone" in scenario.options else min(dist.get_world_size(), 2)
    options = {"mesh": mesh_of(scenario.wrapper, shard_count)}
    if "mixed_precision" in scenario.options:
        low = torch.bfloat16 if "low_reduce" in scenario.options else torch.float32
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=low)
    if "kept_gathered" in scenario.options:
        options["reshard_after_forward"] = False
    if "root_alone" not in scenario.options:
        fully_shard(model.first, **options)
        fully_shard(model.second, **options)
    return fully_shard(model, **options)


def batch(scenario: Scenario, rank: int, micro_batch: int) -> tuple[Tensor, Tensor, int]:
    """Return features, rows and count of a micro-batch; one of count 0 has a unit that must not count."""
    count = scenario.counts[micro_batch][rank]
    size = max(count, 1)
    features = torch.tensor([unit(rank, micro_batch, index) for index in range(size)])
    rows = torch.tensor([row_of(rank, micro_batch, index) for index in range(size)])
    return features.to(getattr(torch, scenario.dtype)), rows, count


def whole(gradient: Tensor | None) -> list[float] | None:
    """Return all numbers of a gradient."""
    if gradient is None:
        return None
    gradient = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
    gradient = gradient.to_dense() if gradient.is_sparse else gradient
    return gradient.double().flatten().tolist()


def gradients(model: nn.Module) -> dict[str, list[float] | None]:
    """Return what the optimizer would step on, by layer."""
    found: dict[str, list[float] | None] = {}
    for name, parameter in model.named_parameters():
        layer = name.removeprefix("module.").split(".")[0]
        numbers = whole(parameter.grad)
        found[layer] = numbers if found.get(layer) is None or numbers is None else [*found[layer], *numbers]
    return found
