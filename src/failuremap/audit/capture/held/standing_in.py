"""Tensors that an optimizer holds in place of parameters: flat ones of many, partitions of these, fp32 copies.

Autograd never reaches them. A framework that makes them is asked once, when it has made them, which elements of which
parameters they hold; from then on a step is read there, piece by piece.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from failuremap.audit.capture.watching import Place, Watched

# elements of a piece that are compared with the parameter's
_COMPARED = 64


@dataclass(eq=False)
class StandIn:
    """What one tensor stands for."""

    watched: list[Watched] = field(default_factory=list)


class StandIns:
    """All tensors that stand for parameters in optimizers, and the optimizers whose tensors are not understood."""

    def __init__(self) -> None:
        self._by_tensor = WeakTensorKeyDictionary()
        self._unread: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._announcing: weakref.WeakKeyDictionary[Any, Callable[[], None]] = weakref.WeakKeyDictionary()

    def add(self, watched: Watched, tensor: Tensor, start: int, size: int, *, whole_weights: bool) -> None:
        """Says where in a tensor, in an optimizer, the elements lie that this rank steps on.

        Args:
            watched: The parameter; its `piece` says which elements of it these are, where they are not all.
            tensor: What the optimizer holds.
            start: Where they begin in it, flattened.
            size: How many they are; a parameter of which this rank steps on nothing has none.
            whole_weights: Whether the parameter itself holds all its weights on this rank.
        """
        watched.place = Place(weakref.ref(tensor), start, size, whole_weights)
        self._by_tensor.setdefault(tensor, StandIn()).watched.append(watched)

    def found(self, tensor: Tensor) -> list[Watched] | None:
        """The parameters that a tensor stands for; None where it is not known to stand for any."""
        known: StandIn | None = self._by_tensor.get(tensor) if self._by_tensor else None
        return None if known is None else known.watched

    def stepping(self, optimizer: Any) -> Any:
        """What makes the step: the one stand-in that an optimizer has been given for it, or else the optimizer.

        DeepSpeed steps on one partition after the other, by an optimizer that has been given no other.
        """
        held = [tensor for group in optimizer.param_groups for tensor in group["params"]]
        known = self._by_tensor.get(held[0]) if len(held) == 1 else None
        return optimizer if known is None else known

    def leave_unread(self, optimizer: Any, why: str) -> None:
        """Says that the tensors of an optimizer stand for parameters in a way that is not understood."""
        self._unread[optimizer] = why

    def unread(self, optimizer: Any) -> str:
        """What an optimizer holds that is not understood; '' where nothing is."""
        return self._unread.get(optimizer, "")

    def before_steps(self, optimizer: Any, announce: Callable[[], None]) -> None:
        """Has something called before each step of an optimizer is read."""
        self._announcing[optimizer] = announce

    def announce(self, optimizer: Any) -> None:
        """Calls what is to be called before a step."""
        if (announce := self._announcing.get(optimizer)) is not None:
            announce()


def hold_alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers, by sampled elements, and up to their types and a step on zeros."""
    if one.numel() != other.numel():
        return False
    stride = max(1, one.numel() // _COMPARED)
    first, second = (tensor.detach().reshape(-1)[::stride].float() for tensor in (one, other))
    return bool(torch.isclose(first, second, rtol=0.02, atol=0, equal_nan=True).all())
