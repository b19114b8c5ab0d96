"""Aggregation on PyTorch tensors in memory: their numbers as NumPy sees them, the same arithmetic, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from failuremap.aggregate import numpy_
from failuremap.aggregate.exact_blocks import nearest_sum
from failuremap.aggregate.exact_formats import BFLOAT16, FORMATS, Format
from failuremap.aggregate.exact_terms import Array
from failuremap.errors import InvalidArgument

NAME = "a tensor"
_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def check(leaf: Tensor, place: str) -> None:
    """Refuses tensors that don't lie densely in the CPU's memory, or hold no real numbers."""
    if type(leaf) not in {Tensor, torch.nn.Parameter}:
        raise InvalidArgument(
            f"{place} is a {type(leaf).__name__}; expected a plain tensor. Of a DTensor give .full_tensor()."
        )
    if leaf.layout != torch.strided:
        raise InvalidArgument(f"{place} has layout {leaf.layout}; expected a dense tensor: give .to_dense().")
    if leaf.device.type != "cpu":
        raise InvalidArgument(
            f"{place} is on device {leaf.device}; aggregate adds up on the CPU: give .cpu(). Gradients of a model in "
            "training are brought together where they are by failuremap.attach."
        )
    if _dtype_of(leaf) not in FORMATS and leaf.dtype not in _INTEGERS:
        raise InvalidArgument(
            f"{place} has dtype {_dtype_of(leaf)}; expected {', '.join(FORMATS)} or integers. "
            "Convert it first, such as with .float()."
        )


def facts(leaf: Tensor) -> dict[str, object]:
    """Returns the dtype and the shape."""
    return {"dtype": _dtype_of(leaf), "shape": tuple(leaf.shape)}


def is_finite(leaf: Tensor) -> bool:
    """Returns whether no number is infinite or NaN."""
    return bool(torch.isfinite(leaf).all())


def combine(leaves: Sequence[Tensor], weights: Sequence[int], rule: str) -> Tensor:
    """Combines tensors by a rule; integers become float64."""
    if leaves[0].dtype in _INTEGERS:
        return torch.from_numpy(numpy_.combine([_array(leaf) for leaf in leaves], weights, rule))
    rows = [flat(leaf)[0] for leaf in leaves]
    values = nearest_sum(rows, weights, 1 if rule == "sum" else sum(weights), format_of(leaves[0]))
    return shaped(values, leaves[0])


def format_of(leaf: Tensor) -> Format:
    """Returns the format of a tensor of floats."""
    return FORMATS[_dtype_of(leaf)]


def flat(leaf: Tensor) -> tuple[Array, Format]:
    """Returns the numbers as flat storage: aligned, in C order; a view where they lie so."""
    if leaf.dtype != torch.bfloat16:
        return numpy_.flat(_array(leaf))
    bits = _array(leaf.detach().resolve_neg().contiguous().view(torch.int16))
    return np.require(bits, requirements=["C", "A"]).reshape(-1).view(np.uint16), BFLOAT16


def shaped(values: Array, like: Tensor) -> Tensor:
    """Returns flat storage as a tensor of the shape and dtype of another."""
    if like.dtype == torch.bfloat16:
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16).reshape(like.shape)
    return torch.from_numpy(values).reshape(like.shape)


def template(leaf: Tensor) -> Tensor:
    """Returns a tensor of the same shape and dtype with a single element in memory."""
    return torch.zeros((), dtype=leaf.dtype).expand(leaf.shape)


def _array(leaf: Tensor) -> Array:
    array: Array = leaf.numpy(force=True)
    return array


def _dtype_of(leaf: Tensor) -> str:
    return str(leaf.dtype).removeprefix("torch.")
