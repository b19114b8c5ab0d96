"""Reads what a unit weighs in a loss that computes the logits itself, from hidden states and the head.

    L = sum_i w_i * (-log softmax(W h_i + b)[t_i])    =>    dL/dh_i = w_i W' (softmax(W h_i + b) - onehot(t_i))

The hidden states are rows that were kept when the function ran, or what it saved for its backward; the head is a
parameter, or saved as well. Every target is tried in some of the rows, and with one each of these has to fit within
rounding, and with one weight for all. Which units there are, every row says: those without a gradient are none. What is
computed in half precision is held to `coarse`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from failuremap.audit.capture.loss import coarse
from failuremap.audit.capture.loss.ahead import FLOATS, Kept

FUNCTION = "cross_entropy_at_hidden"
# rows that are computed again, evenly spaced: a part of the cost of the head that is small beside that of its backward
ROWS = 16
# relative misfit of a row, and difference of two weights, that float32 may make of sums over classes and features
_MISFIT = 1e-3
_FEWEST_CLASSES, _FEWEST_FEATURES = 3, 4
# a row without gradient is masked, unless its target is about certain
CERTAIN = 1e-3
_CLASSES_AT_ONCE = 8192


class Head(NamedTuple):
    """What a function may compute logits from."""

    place: int
    """Of the hidden states among the inputs."""
    hidden: Tensor
    weight: Tensor
    """Classes by features."""
    bias: Tensor | None
    places: Tensor | None = None
    """Which rows the hidden states are; None: all."""
    dtype: torch.dtype = torch.float32
    """The coarsest type that the logits were computed in."""


def head_behind(kept: Kept) -> Head | None:
    """The head behind hidden states of which rows were kept; None where the rows are logits."""
    if kept.weight is None:
        return None
    return Head(kept.place, kept.rows, kept.weight, kept.bias, kept.places, kept.dtype)


def head_of(node: Any, saved: list[Tensor]) -> Head | None:
    """The hidden states that a function of the script's own saved, and a head for them; None where there are none.

    Args:
        node: Of the function.
        saved: What it saved for its backward.
    """
    inputs = [(place, source, _shape(source, output)) for place, (source, output) in enumerate(node.next_functions)]
    for place, source, shape in inputs:
        hidden = next((kept for kept in saved if kept.dim() > 1 and tuple(kept.shape) == shape), None)
        if hidden is None or _is_parameter(source) or hidden.dtype not in FLOATS:
            continue
        features = hidden.shape[-1]
        weight = next((found for found in _weights(inputs, saved, place) if _fits(found, features)), None)
        if weight is not None:
            weight = weight if weight.shape[1] == features else weight.t()
            return Head(place, hidden, weight, _bias(inputs, weight.shape[0]), None, hidden.dtype)
    return None


def _is_parameter(source: Any) -> bool:
    """Whether an input is a parameter, or a copy of one in another type."""
    edges = source.next_functions if "ToCopy" in source.name() else ((source, 0),)
    return hasattr(edges[0][0], "variable")


def _shape(source: Any, output: int) -> tuple[int, ...]:
    return () if source is None else tuple(source._input_metadata[output].shape)


def _weights(inputs: list[tuple[int, Any, tuple[int, ...]]], saved: list[Tensor], but: int) -> list[Tensor]:
    """Tables that the function got beside the hidden states: the parameters, or what it saved of that shape."""
    shapes = {shape for place, source, shape in inputs if place != but and source is not None and len(shape) == 2}
    own = [source.variable.detach() for place, source, _ in inputs if place != but and hasattr(source, "variable")]
    found = [*own, *(kept.detach() for kept in saved if {tuple(kept.shape), tuple(kept.shape[::-1])} & shapes)]
    return [weight for weight in found if type(weight) is Tensor]


def _fits(weight: Tensor, features: int) -> bool:
    if weight.dim() != 2 or weight.dtype not in FLOATS or features < _FEWEST_FEATURES:
        return False
    return features in weight.shape and sum(weight.shape) - features >= _FEWEST_CLASSES


def _bias(inputs: list[tuple[int, Any, tuple[int, ...]]], classes: int) -> Tensor | None:
    for _, source, shape in inputs:
        if shape == (classes,) and hasattr(source, "variable"):
            bias: Tensor = source.variable.detach()
            return bias
    return None


def weights_of(gradient: Tensor | None, reached: Sequence[Tensor | None], head: Head) -> Tensor | None:
    """The weight of each row, 0 where it is masked; None where the gradient is not that of a cross entropy.

    Args:
        gradient: At the hidden states.
        reached: The gradients of what the function gave: of all rows together, or of each.
        head: What the logits were computed from.
    """
    if type(gradient) is not Tensor or not all(map(is_even, reached)):
        return None
    rows = gradient.flatten(0, -2)
    live = (rows != 0).any(1)
    try:
        common = _common(rows, live, reached, head)
    except RuntimeError:  # what was kept is no longer there, as where a gathered head is scattered again
        return None
    return None if common is None else (live.double() * common).reshape(gradient.shape[:-1])


def is_even(reached: Tensor | None) -> bool:
    """Whether all rows that a gradient reaches are reached by the same."""
    if reached is None or reached.numel() < 2:
        return True
    live = reached[reached != 0].double()
    return not len(live) or bool(live.max() - live.min() <= _MISFIT * live.abs().max())


def _common(rows: Tensor, live: Tensor, reached: Sequence[Tensor | None], head: Head) -> float | None:
    """The weight that all rows have which are tried."""
    hidden = head.hidden.flatten(0, -2)
    places = torch.arange(len(hidden), device=rows.device) if head.places is None else head.places
    tried, idle = (_some((live[places] == wanted).nonzero()[:, 0]) for wanted in (True, False))
    if not len(tried):
        return None
    at = torch.cat([tried, idle])
    logits = _by_parts(hidden[at].to(head.dtype).float(), head)
    dtype = _coarsest(rows, head)
    if _may_be_certain(logits[len(tried) :], dtype):
        return None
    logits = logits[: len(tried)]
    fit = _nearest(rows[places[tried]].float(), logits, head)
    errors = coarse.errors_of(logits, fit.lengths, fit.directions, fit.targets, dtype)
    if coarse.is_half(dtype):
        expected = _expected(reached, int(live.sum()), len(rows))
        return coarse.common(fit.weights, fit.misfits, errors, rows.shape[1], expected)
    clear = errors <= _MISFIT
    weights, misfits = fit.weights[clear], fit.misfits[clear]
    if not len(weights):
        return None
    common = weights.median()
    alike = (weights - common).abs() <= _MISFIT * common
    return float(common) if bool((common > 0) & (misfits <= _MISFIT).all() & alike.all()) else None


def _may_be_certain(logits: Tensor, dtype: torch.dtype) -> bool:
    """Whether a row may have a target that is so certain that nothing is left of its gradient; float16 ends early."""
    least = 1 - CERTAIN if dtype == torch.float16 else 1.0
    return bool((logits.softmax(1) >= least).any())


def _some(places: Tensor) -> Tensor:
    if len(places) <= ROWS:
        return places
    return places[torch.linspace(0, len(places) - 1, ROWS, device=places.device).round().long()]


def _coarsest(rows: Tensor, head: Head) -> torch.dtype:
    return max((rows.dtype, head.dtype, head.weight.dtype), key=lambda dtype: torch.finfo(dtype).eps)


def _expected(reached: Sequence[Tensor | None], units: int, rows: int) -> list[float]:
    """What a row may weigh by what reached the function: a part of a mean over the units or over all rows, or all."""
    given = next(one for one in reached if one is not None)
    if given.numel() > 1:
        return [float(given.max())]
    return [float(given) / units, float(given) / rows, float(given)]


def _parts(head: Head) -> Iterator[tuple[slice, Tensor]]:
    """The head in float32, so many classes at a time that a copy of half precision takes little memory."""
    for start in range(0, len(head.weight), _CLASSES_AT_ONCE):
        part = slice(start, start + _CLASSES_AT_ONCE)
        yield part, head.weight[part].to(head.dtype).float()


def _by_parts(rows: Tensor, head: Head) -> Tensor:
    """What the head gives for some rows."""
    found = torch.cat([rows @ weight.t() for _, weight in _parts(head)], 1)
    return found if head.bias is None else found + head.bias.to(head.dtype).float()


class _Fit(NamedTuple):
    weights: Tensor
    """Of each row, with the target that fits best."""
    misfits: Tensor
    """How far off it is, as a part of the row."""
    targets: Tensor
    directions: Tensor
    lengths: Tensor
    """Squared norms of the head's rows."""


def _nearest(rows: Tensor, logits: Tensor, head: Head) -> _Fit:
    probabilities, means = logits.softmax(1), torch.zeros_like(rows)
    lengths, by_means, by_rows = [], [], []
    for part, weight in _parts(head):
        means += probabilities[:, part] @ weight
        lengths.append(torch.linalg.vector_norm(weight, dim=1).square())
    for _, weight in _parts(head):
        by_means.append(means @ weight.t())
        by_rows.append(rows @ weight.t())
    squares = (means * means).sum(1, keepdim=True) - 2 * torch.cat(by_means, 1) + torch.cat(lengths)
    along = (rows * means).sum(1, keepdim=True) - torch.cat(by_rows, 1)
    targets = (along / squares.clamp(min=1e-30).sqrt()).argmax(1)
    directions = (means - head.weight[targets].to(head.dtype).float()).double()
    weights = (rows.double() * directions).sum(1) / directions.square().sum(1)
    apart = (rows.double() - weights[:, None] * directions).square().sum(1).sqrt()
    return _Fit(weights, apart / rows.double().square().sum(1).sqrt(), targets, directions, torch.cat(lengths))
