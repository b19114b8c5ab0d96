"""Reads what a unit weighs in a loss that is written by hand, at the log-probabilities that the loss is made of.

    L = sum_i w_i * (-sum_c t_ic log p_ic),  sum_c t_ic = 1    =>    w_i = -sum_c dL / d(log p_ic)

whatever the targets t are: one class, smoothed labels, another model's probabilities. Where log p is written as
x_target - logsumexp(x), w_i is what reaches the logsumexp; in -logsigmoid(x), of a preference or a logit, what reaches
it. A row that nothing reaches is masked. Where the w_i of a pass differ, the loss weighs its units by numbers of its
own, and then this says nothing: the term stays unseen.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from failuremap.audit.capture.layout import whole
from failuremap.audit.capture.recorder import Recorder

# autograd functions of libraries whose first result is log p of the targets, one a row; the second input is the head
_FUSED = frozenset({"ChunkedLogProbFunction"})  # trl
KINDS = frozenset({"LogSoftmax", "Logsumexp", "LogSigmoid", "Softplus"}) | _FUSED
GATHER = "Gather"
_ROUNDINGS = 16


def watch(recorder: Recorder, nodes: list[tuple[str, Any]], unseen: list[str], place: tuple[str, str]) -> None:
    """Reads the weights of the units of a pass when its gradients arrive at these nodes.

    Args:
        recorder: Where the losses go.
        nodes: Name and node of each log-probability that the pass starts from.
        unseen: The unseen terms of the pass; the names of the nodes leave it when their weights are understood.
        place: Where the pass was started: 'train.py:41', and in more detail.
    """
    reading = _Reading(recorder, unseen, place, len(nodes))
    for name, node in nodes:
        reading.handles.append(node.register_prehook(functools.partial(reading.arrived, name, node)))


class _Reading:
    def __init__(self, recorder: Recorder, unseen: list[str], place: tuple[str, str], waiting: int) -> None:
        self.recorder, self.unseen, self.place, self.waiting = recorder, unseen, place, waiting
        self.handles: list[Any] = []
        self.found: list[tuple[str, int | None, Tensor]] = []
        self.gathered: list[Tensor] = []
        self.epsilon = 0.0

    def arrived(self, name: str, node: Any, gradients: tuple[Tensor, ...]) -> None:
        try:
            with torch.no_grad():
                self._read(name, node, whole(gradients[0], "the gradient of a log-probability").detach())
                self.waiting -= 1
                if not self.waiting:
                    self._settle()
        except Exception as error:
            self.recorder.note_error("on_loss", error)

    def _read(self, name: str, node: Any, gradient: Tensor) -> None:
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
        self.found.append((name, classes, sign * gradient.double()))

    def _settle(self) -> None:
        """Tells the losses, if all units of the pass weigh the same."""
        for handle in self.handles:
            handle.remove()
        weights = torch.cat([rows.flatten() for _, _, rows in self.found])
        weights = weights[weights != 0]
        if not weights.numel():
            return
        low, high = weights.min(), weights.max()
        if not bool((low > 0) & (high <= low * (1 + _ROUNDINGS * self.epsilon))):
            return
        if self.gathered:
            normalised = sum(rows.sum() for name, _, rows in self.found if name == "Logsumexp")
            chosen = -torch.stack(self.gathered).sum()
            if not bool((chosen - normalised).abs() <= _ROUNDINGS * self.epsilon * chosen.abs()):
                return
        self.unseen[:] = [name for name in self.unseen if name not in (*KINDS, GATHER)]
        for name, classes, rows in self.found:
            function = "logsigmoid" if name in ("LogSigmoid", "Softplus") else "log_softmax"
            self.recorder.on_loss(event_of(function, classes, rows, self.place))


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
