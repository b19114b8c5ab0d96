"""Watches what would use the gradients of an open window: the optimizers of this process, and clipping."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from failuremap.aggregate.torch.backend import Backend
from failuremap.errors import StepVoid

_watched: weakref.WeakSet[Backend] = weakref.WeakSet()
_installed: list[Any] = []


def watch(backend: Backend) -> None:
    """Refuses, from now on, steps on gradients that are not finished."""
    _watched.add(backend)
    if not _installed:
        _installed.append(register_optimizer_step_pre_hook(_before_step))


def refuse_open_window(parameters: Iterable[Tensor], what: str) -> None:
    """Refuses to use gradients of an open window.

    Raises:
        StepVoid: One of the parameters has such a gradient.
    """
    opened = [backend for backend in _watched if backend.window is not None]
    used = list(parameters) if opened else []
    for backend in opened:
        if any(parameter in backend.names for parameter in used):
            raise StepVoid(
                f"{what} on rank {backend.ranks.own} came before handle.step(): the gradients of this window are not "
                "finished. Call handle.step() after the window's last backward, then clip, then optimizer.step()."
            )


def _before_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
    refuse_open_window((p for group in optimizer.param_groups for p in group["params"]), "optimizer.step()")
