"""Reads what a unit weighs apart from the script's own number for it, such as an advantage, in policy gradients.

    L = sum_i w_i f_i    =>    w_i = dL / df_i        f_i: the unit's number, a function of its log-probability

The gradient at f says the weights, whatever f is made of. It does not say which units there are where the mask is part
of f: a unit whose advantage is zero looks like one that is masked. So either a mask was met before f, or one behind it
can be read, or no log-probability is without a gradient that has one at f, or none is multiplied by zero, and those
without are clipped; else nothing is concluded.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from failuremap.audit.capture.held.layout import whole
from failuremap.audit.capture.loss.unit_tensors import Units
from failuremap.audit.capture.recorder import Recorder

FUNCTION = "loss_per_unit"
_ROUNDINGS = 16


class Reading:
    """The gradients at the tensors of units of one pass, as they arrive."""

    def __init__(self, recorder: Recorder, units: Sequence[Units]) -> None:
        self.recorder, self.units = recorder, units
        self.own_numbers = any(found.own_numbers for found in units)
        self.several = not any(found.unclear for found in units) and (
            all(found.combined for found in units) or len({found.path for found in units}) > 1
        )
        self.gradients: dict[int, Tensor] = {}
        self.handles = [
            found.at.node.register_prehook(functools.partial(self._arrived, index, found.at.output))
            for index, found in enumerate(units)
        ]

    def _arrived(self, index: int, output: int, gradients: tuple[Tensor | None, ...]) -> None:
        try:
            if (gradient := gradients[output]) is not None:
                self.gradients[index] = whole(gradient, "the gradient of a loss").detach()
        except Exception as error:
            self.recorder.note_error("on_loss", error)

    def events(self, likelihoods: dict[Any, tuple[int | None, Tensor]], event_of: Any) -> list[dict[str, Any]]:
        """What a trace holds of the losses; [] where something about them is not understood.

        Args:
            likelihoods: By node: the classes of each unit, and the gradient of its log-probability.
            event_of: Makes the event, given the classes and the weights.
        """
        for handle in self.handles:
            handle.remove()
        found = []
        for index, units in enumerate(self.units):
            ends = [likelihoods[node] for node in units.ends if node in likelihoods]
            gradient = self.gradients.get(index)
            weights = None if gradient is None or len(ends) < len(units.ends) else _weights(units, gradient, ends)
            if weights is None:
                return []
            found.append(_told(units, weights, {classes for classes, _ in ends}, event_of))
        return found


def _told(units: Units, weights: Tensor, classes: set[int | None], event_of: Any) -> dict[str, Any]:
    if units.of_rows:
        event: dict[str, Any] = event_of(FUNCTION, None, weights.flatten())
        event |= {"unit": units.of_rows, "rows": event["count"]}
    else:
        event = event_of(FUNCTION, classes.pop() if len(classes) == 1 else None, weights)
    event["place"] += f" {zlib.crc32(units.path.encode()):08x}"
    return event


def _weights(units: Units, gradient: Tensor, ends: list[tuple[int | None, Tensor]]) -> Tensor | None:
    """What each unit weighs, 0 where there is none; None where that is not clear."""
    sizes = gradient.double().abs()
    live = sizes != 0
    if not bool(live.any()):
        return None
    low, high = sizes[live].min(), sizes.max()
    if not bool(high <= low * (1 + _ROUNDINGS * torch.finfo(gradient.dtype).eps)):
        return None
    counts = [rows.numel() for _, rows in ends]
    one_each = sizes.numel() in (sum(counts), max(counts))  # and not one for each class
    if units.of_rows or units.masked or (one_each and _holds_no_mask(units)):
        return sizes
    reached = [int((rows != 0).sum()) for _, rows in ends]
    arrived = sum(reached) if sum(counts) == sizes.numel() else max(reached)
    if arrived == int(live.sum()):
        return sizes
    masks = [mask.reshape(sizes.shape) for mask in units.masks]
    if not masks or any(not bool((mask == masks[0]).all()) for mask in masks):
        return None
    kept = sizes * masks[0]
    return kept if arrived <= int((kept != 0).sum()) else None


def _holds_no_mask(units: Units) -> bool:
    """Whether no unit is masked in what its number is made of: one without a gradient is clipped, and counts."""
    if units.masks or units.mask_unread or units.unclear:
        return False
    return all(bool((numbers != 0).all()) for numbers in units.numbers)
