"""Reads what a unit weighs in a loss that computes the logits itself, from hidden states and the head.

    L = sum_i w_i * (-log softmax(W h_i + b)[t_i])    =>    dL/dh_i = w_i W' (softmax(W h_i + b) - onehot(t_i))

The hidden states and the head are what the function saved for its backward, or the head is the parameter itself. Every
target is tried in some of the rows, and with one each of these has to fit within rounding, and with one weight for all.
Which units there are, every row says: those without a gradient are none. In half precision the logits of the job are
too coarse to be computed again, and nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

FUNCTION = "cross_entropy_at_hidden"
# rows that are computed again, evenly spaced: a part of the cost of the head that is small beside that of its backward
ROWS = 16
# relative misfit of a row, and difference of two weights, that float32 may make of sums over classes and features
_MISFIT = 1e-3
_FEWEST_CLASSES, _FEWEST_FEATURES = 3, 4


class Head(NamedTuple):
    """What a function may compute logits from."""

    place: int
    """Of the hidden states among the inputs."""
    hidden: Tensor
    weight: Tensor
    """Classes by features."""
    bias: Tensor | None


def head_of(node: Any, saved: list[Tensor]) -> Head | None:
    """The hidden states that a function of the script's own saved, and a head for them; None where there are none.

    Args:
        node: Of the function.
        saved: What it saved for its backward.
    """
    inputs = [(place, source, _shape(source, output)) for place, (source, output) in enumerate(node.next_functions)]
    for place, source, shape in inputs:
        hidden = next((kept for kept in saved if kept.dim() > 1 and tuple(kept.shape) == shape), None)
        if hidden is None or hasattr(source, "variable") or hidden.dtype != torch.float32:
            continue
        features = hidden.shape[-1]
        weight = next((found for found in _weights(inputs, saved, place) if _fits(found, features)), None)
        if weight is not None:
            weight = weight if weight.shape[1] == features else weight.t()
            return Head(place, hidden, weight, _bias(inputs, weight.shape[0]))
    return None


def _shape(source: Any, output: int) -> tuple[int, ...]:
    return () if source is None else tuple(source._input_metadata[output].shape)


def _weights(inputs: list[tuple[int, Any, tuple[int, ...]]], saved: list[Tensor], but: int) -> list[Tensor]:
    """Tables that the function got beside the hidden states: the parameters, or what it saved of that shape."""
    shapes = {shape for place, source, shape in inputs if place != but and source is not None and len(shape) == 2}
    own = [source.variable.detach() for place, source, _ in inputs if place != but and hasattr(source, "variable")]
    found = [*own, *(kept.detach() for kept in saved if {tuple(kept.shape), tuple(kept.shape[::-1])} & shapes)]
    return [weight for weight in found if type(weight) is Tensor]


def _fits(weight: Tensor, features: int) -> bool:
    if weight.dim() != 2 or weight.dtype != torch.float32 or features < _FEWEST_FEATURES:
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
    if type(gradient) is not Tensor or not all(map(_is_even, reached)):
        return None
    rows, hidden = gradient.flatten(0, -2), head.hidden.flatten(0, -2)
    live = (rows != 0).any(1)
    places = live.nonzero()[:, 0]
    if not len(places):
        return None
    places = places[torch.linspace(0, len(places) - 1, min(ROWS, len(places)), device=places.device).round().long()]
    try:
        weights, misfits = _nearest(rows[places], hidden[places], head)
    except RuntimeError:  # what was kept is no longer there, as where a gathered head is scattered again
        return None
    common = weights.median()
    if not bool((common > 0) & (misfits <= _MISFIT).all() & ((weights - common).abs() <= _MISFIT * common).all()):
        return None
    return (live.double() * common).reshape(gradient.shape[:-1])


def _is_even(reached: Tensor | None) -> bool:
    """Whether all rows that a gradient reaches are reached by the same."""
    if reached is None or reached.numel() < 2:
        return True
    live = reached[reached != 0].double()
    return not len(live) or bool(live.max() - live.min() <= _MISFIT * live.abs().max())


def _nearest(rows: Tensor, hidden: Tensor, head: Head) -> tuple[Tensor, Tensor]:
    """Of each row the weight with the target that fits best, and how far off it is, as a part of the row."""
    logits = hidden @ head.weight.t() + (0 if head.bias is None else head.bias)
    means = logits.softmax(1) @ head.weight
    lengths = torch.linalg.vector_norm(head.weight, dim=1).square()
    along = (rows * means).sum(1, keepdim=True) - rows @ head.weight.t()
    squares = (means * means).sum(1, keepdim=True) - 2 * means @ head.weight.t() + lengths
    targets = (along / squares.clamp(min=1e-30).sqrt()).argmax(1)
    directions = (means - head.weight[targets]).double()
    weights = (rows.double() * directions).sum(1) / directions.square().sum(1)
    apart = (rows.double() - weights[:, None] * directions).square().sum(1).sqrt()
    return weights, apart / rows.double().square().sum(1).sqrt()
