"""`clip_grad_norm_`: one norm of all logical elements, one factor on all ranks.

A DTensor's elements lie spread over the mesh dimensions that it is sharded on, and repeated over the others; a plain
gradient is whole on each rank. So the norms of a group with the same mesh and the same sharded dimensions are summed
over these dimensions alone, and each element counts once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from failuremap.aggregate.torch.backend import local, values_of
from failuremap.aggregate.torch.guard import refuse_open_window
from failuremap.errors import InvalidArgument, StepVoid

_Spread = tuple[Any, tuple[int, ...]]  # a device mesh, and the dimensions of it that the elements are sharded on


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, *, error_if_nonfinite: bool = False
) -> Tensor:
    """Scales gradients so that their norm is at most `max_norm`; returns the norm before, the same on all ranks.

    Counts each logical element once: plain gradients, whole on every rank, and DTensors of any mesh, together.
    All ranks call it with the same parameters, after `handle.step()`.

    Args:
        parameters: A tensor, or several; those without a gradient add nothing.
        max_norm: Largest norm that is left as it is; more than 0.
        norm_type: p of the norm; infinity for the largest element.
        error_if_nonfinite: Whether a norm that is not finite raises; else the gradients become NaN, as torch's do.

    Raises:
        InvalidArgument: `max_norm` or `norm_type` is no such number, or a gradient is a pending sum.
        StepVoid: The gradients belong to an open window, or their norm is not finite and shall raise.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> clip_grad_norm_([weight], max_norm=1.0).item(), round(weight.grad.norm().item(), 4)
        (5.0, 1.0)
    """
    _check("max_norm", max_norm)
    _check("norm_type", norm_type)
    # A tied parameter may come once for each module that has it.
    used = [parameters] if isinstance(parameters, Tensor) else list(dict.fromkeys(parameters))
    refuse_open_window(used, "clip_grad_norm_")
    with torch.no_grad():
        norm = _total_norm(used, float(norm_type))
        if error_if_nonfinite and not math.isfinite(norm):
            raise StepVoid(
                f"norm={norm} of the gradients is not finite (norm_type={norm_type}); no gradient was changed."
            )
        factor = min(1.0, max_norm / (norm + 1e-6)) if not math.isnan(norm) else norm
        if factor != 1.0:
            for parameter in used:
                if parameter.grad is not None:
                    local(parameter.grad).mul_(factor)
    return torch.tensor(norm, dtype=torch.float32)


def _total_norm(parameters: list[Tensor], p: float) -> float:
    """Returns the norm; every rank takes part in the same sums, also where it has no gradient."""
    groups: dict[_Spread | None, list[Tensor]] = {}
    for parameter in parameters:
        groups.setdefault(_spread(parameter), []).append(parameter)
    norms = [_norm_of_group(spread, members, p) for spread, members in groups.items()]
    if any(math.isnan(norm) for norm in norms):
        return math.nan
    return max(norms, default=0.0) if p == math.inf else sum(norm**p for norm in norms) ** (1 / p)


def _norm_of_group(spread: _Spread | None, parameters: list[Tensor], p: float) -> float:
    parts = [_norm_of(local(parameter.grad), p) for parameter in parameters if parameter.grad is not None]
    norms = torch.stack(parts) if parts else torch.zeros(1, dtype=torch.float64)
    total = norms.max() if p == math.inf else norms.pow(p).sum()
    if spread is not None:
        mesh, dims = spread
        total = total.to(mesh.device_type)
        for dim in dims:
            op = dist.ReduceOp.MAX if p == math.inf else dist.ReduceOp.SUM
            dist.all_reduce(total, op, group=mesh.get_group(dim))
    return float(total) if p == math.inf else float(total) ** (1 / p)


def _norm_of(gradient: Tensor, p: float) -> Tensor:
    values = values_of(gradient.coalesce() if gradient.is_sparse else gradient)
    if not values.numel():
        return torch.zeros((), dtype=torch.float64, device=values.device)
    norm: Tensor = torch.linalg.vector_norm(values, p, dtype=torch.float64)
    return norm


def _spread(parameter: Tensor) -> _Spread | None:
    """Returns what a parameter's elements are spread over; None for a plain one."""
    mesh: Any = getattr(parameter, "device_mesh", None)
    if mesh is None:
        return None
    placements: Any = getattr(parameter.grad, "placements", None) or getattr(parameter, "placements", ())
    if any(placement.is_partial() for placement in placements):
        raise InvalidArgument(
            f"a gradient has the placements {tuple(placements)}: a sum that is still pending has no norm. "
            "Redistribute it to Replicate or Shard first."
        )
    return mesh, tuple(dim for dim, placement in enumerate(placements) if not placement.is_replicate())


def _check(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InvalidArgument(f"{name}={value!r}; expected a number above 0.")
