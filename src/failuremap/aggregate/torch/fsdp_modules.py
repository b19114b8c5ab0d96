"""What is read of modules given to fully_shard, by torch's own private names: parameters, groups and hooks."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import nn

from failuremap.errors import InvalidArgument


def wrapped_modules(model: nn.Module) -> list[Any]:
    """Returns the modules that were given to fully_shard, the outer ones first."""
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def param_groups(module: Any) -> list[Any]:
    """Returns the groups of parameters that a module gathers and reduces; there may be none."""
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdpparam_groups", None)
    return [state._fsdp_param_group] if groups is None and state._fsdp_param_group else list(groups or ())


def process_groups(module: Any) -> list[dist.ProcessGroup]:
    """Returns the group that a module's shards lie on, and that of its replicas."""
    info = param_groups(module)[0].mesh_info
    found = (getattr(info, name, None) for name in ("shard_process_group", "replicate_process_group"))
    return [group for group in found if group is not None]


def refuse_hooks(module: Any) -> None:
    """Refuses a module that has a reduction of the caller's, or can't be given one.

    Raises:
        InvalidArgument: It is one.
    """
    groups = param_groups(module)
    if len(groups) > 1:
        raise InvalidArgument(
            f"a module of type {type(module).__name__} has parameters on {len(groups)} meshes; fully_shard takes a "
            "reduction of one's own only where there is one. Wrap them apart."
        )
    scatter = getattr(groups[0], "_reduce_scatter_comm", None)
    named = getattr(groups[0], "_all_reduce_hook", None)
    theirs = named or (scatter if scatter is not None and type(scatter).__module__.split(".")[0] != "torch" else None)
    if theirs is not None:
        name = getattr(theirs, "__qualname__", type(theirs).__name__)
        raise InvalidArgument(
            f"a module of type {type(module).__name__} has a reduction of its own, {name!r}; attach needs its place."
        )
