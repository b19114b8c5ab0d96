"""The length of an optimizer's step, as far as it is a number that the script sets: its learning rates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from torch import Tensor
from torch.optim.optimizer import Optimizer

from failuremap.audit.capture.watching import Watched


def rates(optimizer: Optimizer, stepped: Sequence[Watched]) -> list[tuple[float | None, int]]:
    """Learning rates in the order of the parameters, with the number of parameters that follow one another at each."""
    by_parameter = {id(p): _rate(group.get("lr")) for group in optimizer.param_groups for p in group["params"]}
    each = (by_parameter.get(id(watched.held())) for watched in stepped)
    return [(rate, len(list(same))) for rate, same in groupby(each)]


def _rate(rate: Any) -> float | None:
    if isinstance(rate, Tensor):  # on a GPU reading it would make the script wait
        return float(rate) if rate.device.type == "cpu" and rate.numel() == 1 else None
    return float(rate) if isinstance(rate, int | float) else None
