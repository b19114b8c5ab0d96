"""Keeps a few rows of what a loss gets, where that is an autograd function which may keep nothing but its gradients.

A function that computes the gradients in forward needs neither hidden states nor logits in backward, and may write over
them. So some rows are kept before it runs, evenly spaced among those that have a target, and left with its node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

_KEPT = "failuremap.rows"
# rows that are kept: some of them may turn out to be masked
ROWS = 32
_FEWEST_CLASSES, _FEWEST_FEATURES = 3, 4
# a loss in another type is not read
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


class Kept(NamedTuple):
    """Rows of the hidden states, or of the logits, that went into a function."""

    place: int
    """Of the tensor among the tensors that went in."""
    source: tuple[Any, int]
    """The node that made it, and which of its outputs it is."""
    row_count: int
    """All its rows."""
    places: Tensor
    """Which rows these are."""
    rows: Tensor
    weight: Tensor | None
    """The head behind hidden states, classes by features; None where the rows are logits."""
    bias: Tensor | None
    dtype: torch.dtype
    """The coarsest type that the function may compute in."""


def keep(args: tuple[Any, ...]) -> Kept | None:
    """Rows of the hidden states or logits among the arguments; None where nothing looks like these."""
    tensors = [value for value in args if isinstance(value, Tensor)]
    for place, tensor in enumerate(tensors):
        if tensor.grad_fn is None or type(tensor) is not Tensor or tensor.dim() < 2 or tensor.dtype not in FLOATS:
            continue
        count = tensor.numel() // max(1, tensor.shape[-1])
        targets = next((other for other in tensors if not other.is_floating_point() and other.numel() == count), None)
        weight = next((head for head in map(_parameter, tensors) if _fits(head, tensor)), None)
        if not count or (weight is None and (targets is None or tensor.shape[-1] < _FEWEST_CLASSES)):
            continue
        places = _spaced(count, targets, tensor.device)
        rows = tensor.detach().flatten(0, -2)[places]
        weight = weight if weight is None or weight.shape[1] == tensor.shape[-1] else weight.t()
        bias = None if weight is None else _bias(tensors, weight)
        source = (tensor.grad_fn, tensor.output_nr)
        return Kept(place, source, count, places, rows, weight, bias, _coarsest(tensors))
    return None


def _parameter(tensor: Tensor) -> Tensor | None:
    """A parameter, or the one of which this is a copy of another type: the copy, kept alive, would cost memory."""
    if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.dtype not in FLOATS:
        return None
    if tensor.is_leaf:
        return tensor.detach()
    node: Any = tensor.grad_fn
    variable = getattr(node.next_functions[0][0], "variable", None) if "ToCopy" in node.name() else None
    return variable.detach() if type(variable) is torch.nn.Parameter else None


def _fits(head: Tensor | None, hidden: Tensor) -> bool:
    features = hidden.shape[-1]
    if head is None or head.dim() != 2 or features < _FEWEST_FEATURES or features not in head.shape:
        return False
    return sum(head.shape) - features >= _FEWEST_CLASSES


def _bias(tensors: list[Tensor], weight: Tensor) -> Tensor | None:
    return next((_parameter(one) for one in tensors if one.requires_grad and one.shape == weight.shape[:1]), None)


def _spaced(count: int, targets: Tensor | None, device: torch.device) -> Tensor:
    """Evenly spaced rows, among those with a target where they are known; the device is not waited for."""
    steps = torch.linspace(0, 1, min(ROWS, count), device=device)
    if targets is None:
        return (steps * (count - 1)).round().long()
    order = (targets.detach().reshape(-1) >= 0).cumsum(0).to(device)
    found = torch.searchsorted(order, (1 + steps * (order[-1] - 1)).round().to(order.dtype))
    return found.clamp(max=count - 1)


def _coarsest(tensors: list[Tensor]) -> torch.dtype:
    kind = tensors[0].device.type
    types = [torch.get_autocast_dtype(kind)] if torch.is_autocast_enabled(kind) else []
    types += [tensor.dtype for tensor in tensors if tensor.dtype in FLOATS and tensor.dim() > 1]
    return max(types, key=lambda dtype: torch.finfo(dtype).eps)


def leave(node: Any, loss: Tensor, kept: Kept) -> bool:
    """Leaves the rows with the node of a function that may be a loss: it gave one number, or one for each row.

    Returns:
        Whether it may be one.
    """
    may_be = loss.is_floating_point() and loss.numel() in (1, kept.row_count)
    if may_be and node.next_functions[kept.place : kept.place + 1] == (kept.source,):
        node.metadata[_KEPT] = kept
    return may_be


def left_with(node: Any) -> Kept | None:
    """The rows that were left with a node."""
    kept: Kept | None = node.metadata.get(_KEPT)
    return kept
