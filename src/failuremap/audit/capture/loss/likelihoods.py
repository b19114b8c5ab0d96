"""Reads what a unit weighs in a loss that is written by hand, at the log-probabilities that the loss is made of.

    L = sum_i w_i * (-sum_c t_ic log p_ic),  sum_c t_ic = 1    =>    w_i = -sum_c dL / d(log p_ic)

whatever the targets t are: one class, smoothed labels, another model's probabilities. Where log p is written as
x_target - logsumexp(x), w_i is what reaches the logsumexp; in -logsigmoid(x), of a preference or a logit, what reaches
it. A row that nothing reaches is masked. Where the w_i of a pass differ, the loss weighs its units by numbers of its
own; what they weigh apart from these is read as `apart` says, or the term stays unseen.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from failuremap.audit.capture.held.layout import whole
from failuremap.audit.capture.loss import apart, unit_tensors
from failuremap.audit.capture.recorder import Recorder

# autograd functions of libraries whose first result is log p of the targets, one a row; the second input is the head
_FUSED = frozenset({"ChunkedLogProbFunction"})  # trl
KINDS = frozenset({"LogSoftmax", "Logsumexp", "LogSigmoid", "Softplus"}) | _FUSED
GATHER = "Gather"
_ROUNDINGS = 16


class Pass(NamedTuple):
    """A backward pass that is about to start."""

    roots: list[Tensor]
    unseen: list[str]
    """Its unseen terms; their names leave it when their weights are understood."""
    place: tuple[str, str]
    """Where it was started: 'train.py:41', and in more detail."""


class Likelihood(NamedTuple):
    """Log-probabilities that a pass starts from."""

    name: str
    node: Any
    times: float | None = 1.0
    """The number that the script multiplies the loss of them by; None where it is learned."""


def watch(recorder: Recorder, met: list[Likelihood], of: Pass, is_seen: Callable[[Any], bool]) -> None:
    """Reads the weights of the units of a pass when its gradients arrive at these nodes.

    Args:
        recorder: Where the losses go.
        met: All that the pass starts from.
        of: The pass.
        is_seen: Says of a node whether a watched loss function made it.
    """
    if not met:
        return
    sizes = {one.node: _size(one.name, one.node) for one in met if one.name != GATHER}
    try:
        units = unit_tensors.find(of.roots, sizes, is_seen)
    except Exception:  # nodes of a kind that is not known: then nothing is concluded from what lies between
        units = None
    reading = _Reading(recorder, of, len(met), None if units is None else apart.Reading(recorder, units))
    for one in met:
        reading.handles.append(one.node.register_prehook(functools.partial(reading.arrived, one)))


def _size(name: str, node: Any) -> int:
    """How many log-probabilities a node gives."""
    shape: tuple[int, ...] = tuple(node._input_metadata[0].shape)
    return math.prod(shape) // (max(1, shape[signed(node._saved_dim)]) if name == "LogSoftmax" else 1)


class _Reading:
    def __init__(self, recorder: Recorder, of: Pass, waiting: int, apart_from: apart.Reading | None) -> None:
        self.recorder, self.unseen, self.place, self.waiting = recorder, of.unseen, of.place, waiting
        self.apart = apart_from
        self.handles: list[Any] = []
        self.found: dict[Likelihood, tuple[int | None, Tensor]] = {}
        self.gathered: list[Tensor] = []
        self.epsilon = 0.0

    def arrived(self, one: Likelihood, gradients: tuple[Tensor, ...]) -> None:
        try:
            with torch.no_grad():
                self._read(one, whole(gradients[0], "the gradient of a log-probability").detach())
                self.waiting -= 1
                if not self.waiting:
                    self._settle()
        except Exception as error:
            self.recorder.note_error("on_loss", error)

    def _read(self, one: Likelihood, gradient: Tensor) -> None:
        name, node = one.name, one.node
        self.epsilon = max(self.epsilon, torch.finfo(gradient.dtype).eps)
        if name == GATHER:
            self.gathered.append(gradient.double().sum())
            return
        classes = None
        if name == "LogSoftmax":
            dim = signed(node._saved_dim)
            classes = gradient.shape[dim]
            gradient = gradient.sum(dim, dtype=torch.float64)
        elif name == "Logsumexp":
            classes = _shape_before(node)[signed(node._saved_dim[0])]
        elif name in _FUSED:
            classes = _rows_of(node.next_functions[1][0])
        sign = 1 if name in ("Logsumexp", "Softplus") else -1
        self.found[one] = (classes, sign * gradient.double())

    def _settle(self) -> None:
        """Tells the losses: in full if all units of the pass weigh the same, else apart from the script's numbers."""
        for handle in self.handles:
            handle.remove()
        if self._is_of_other_scores():
            return
        if self.apart is not None and (self.apart.own_numbers or (self.apart.several and not self._is_even())):
            told = self.apart.events(self._by_node(), self._event)
            self.unseen[:] = [] if told else self.unseen
            for event in told:
                self.recorder.on_loss(event)
            return
        if not self._is_even():
            return
        self.unseen[:] = [name for name in self.unseen if name not in (*KINDS, GATHER)]
        for one, (classes, rows) in self.found.items():
            function = "logsigmoid" if one.name in ("LogSigmoid", "Softplus") else "log_softmax"
            factor = {} if one.times == 1 else {"times": one.times}
            self.recorder.on_loss({**self._event(function, classes, rows), **factor})

    def _event(self, function: str, classes: int | None, rows: Tensor) -> dict[str, Any]:
        return event_of(function, classes, rows, self.place)

    def _by_node(self) -> dict[Any, tuple[int | None, Tensor]]:
        return {one.node: found for one, found in self.found.items()}

    def _is_even(self) -> bool:
        weights = torch.cat([rows.flatten() for _, rows in self.found.values()])
        weights = weights[weights != 0]
        if not weights.numel():
            return False
        low, high = weights.min(), weights.max()
        return bool((low > 0) & (high <= low * (1 + _ROUNDINGS * self.epsilon)))

    def _is_of_other_scores(self) -> bool:
        """Whether the scores that were picked are not those that the logsumexp is of: then they give no probability."""
        if not self.gathered:
            return False
        normalisers = [rows for one, (_, rows) in self.found.items() if one.name == "Logsumexp"]
        normalised, size = sum(rows.sum() for rows in normalisers), sum(rows.abs().sum() for rows in normalisers)
        chosen = -torch.stack(self.gathered).sum()
        return bool((chosen - normalised).abs() > _ROUNDINGS * self.epsilon * size)


def event_of(function: str, classes: int | None, rows: Tensor, place: tuple[str, str]) -> dict[str, Any]:
    """What a trace holds of a loss that was not called by name.

    Args:
        function: What it is called.
        classes: Of each unit; None where it has none.
        rows: The weight of each unit, 0 where it is masked.
        place: Where the pass was started.
    """
    live = rows != 0
    event: dict[str, Any] = {
        "function": function, "reduction": "none", "site": place[0], "place": place[1],
        "count": live.sum(), "nonzero": live.sum(), "elements": rows.numel(), "scale": rows.sum(),
    }  # fmt: skip
    if classes is not None:
        event["classes"] = classes
    event |= _extremes(rows, "")
    if rows.dim() > 1:
        by_row = rows.flatten(1).sum(1)
        event |= {"rows": (by_row != 0).sum(), **_extremes(by_row, "row_")}
    return event


def _shape_before(node: Any) -> tuple[int, ...]:
    """Shape of what went into a node; what it saved stays untouched: checkpointing hands that out once."""
    source, output = node.next_functions[0]
    return tuple(source._input_metadata[output].shape)


def _rows_of(node: Any) -> int | None:
    """The first dimension of a parameter, given the node that takes its gradient; None for another node."""
    variable = getattr(node, "variable", None)
    return None if variable is None else int(variable.shape[0])


def signed(dim: int) -> int:
    """A dimension, which autograd hands out as an unsigned integer of 64 bits where it is negative."""
    return dim if dim < 1 << 63 else dim - (1 << 64)


def _extremes(values: Tensor, prefix: str) -> dict[str, Tensor]:
    live = values[values != 0]
    return {f"{prefix}smallest": live.min(), f"{prefix}largest": live.max()} if live.numel() else {}
