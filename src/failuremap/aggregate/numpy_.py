"""Aggregation on NumPy arrays: the exact result, rounded once to the dtype that came in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from failuremap.aggregate.exact_blocks import nearest_sum
from failuremap.aggregate.exact_formats import FLOAT64, FORMATS, Format
from failuremap.aggregate.exact_terms import Array
from failuremap.errors import InvalidArgument

NAME = "a NumPy array"


def check(leaf: Array, place: str) -> None:
    """Refuses arrays of no real numbers, and masked ones."""
    if isinstance(leaf, np.ma.MaskedArray):
        raise InvalidArgument(f"{place} is a masked array; say what the masked values are, such as with .filled(0).")
    if leaf.dtype.name not in FORMATS and leaf.dtype.kind not in "iu":
        raise InvalidArgument(
            f"{place} has dtype {leaf.dtype}; expected {', '.join(FORMATS)} or integers. "
            "Convert it first, such as with .astype('float32')."
        )


def facts(leaf: Array) -> dict[str, object]:
    """Returns the dtype, in whatever byte order, and the shape."""
    return {"dtype": leaf.dtype.name, "shape": leaf.shape}


def is_finite(leaf: Array) -> bool:
    """Returns whether no number is infinite or NaN."""
    return bool(np.isfinite(leaf).all())


def combine(leaves: Sequence[Array], weights: Sequence[int], rule: str) -> Array:
    """Combines arrays by a rule; integers become float64."""
    divisor = 1 if rule == "sum" else sum(weights)
    if leaves[0].dtype.name in FORMATS:
        rows = [flat(leaf)[0] for leaf in leaves]
        return shaped(nearest_sum(rows, weights, divisor, format_of(leaves[0])), leaves[0])
    parts = [_float64_parts(leaf) for leaf in leaves]
    rows = [row for pair in parts for row in pair]
    each = [weight for weight, pair in zip(weights, parts, strict=True) for _ in pair]
    return nearest_sum(rows, each, divisor, FLOAT64).reshape(leaves[0].shape)


def format_of(leaf: Array) -> Format:
    """Returns the format of an array of floats."""
    return FORMATS[leaf.dtype.name]


def flat(leaf: Array) -> tuple[Array, Format]:
    """Returns the numbers as flat storage: native, aligned, in C order; a view where they lie so."""
    form = format_of(leaf)
    native = leaf.dtype.newbyteorder("=")
    aligned: Array = np.require(np.asarray(leaf), native, ["C", "A"])
    storage: Array = aligned.reshape(-1).view(form.storage)
    return storage, form


def shaped(values: Array, like: Array) -> Array:
    """Returns flat storage as an array of the shape and dtype of another, in native byte order."""
    array: Array = values.view(like.dtype.newbyteorder("="))
    return array.reshape(like.shape)


def template(leaf: Array) -> Array:
    """Returns an array of the same shape and dtype with a single element in memory."""
    return np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)


def _float64_parts(leaf: Array) -> list[Array]:
    """Splits integers into float64 arrays that add up to them: one, or two where 53 bits may not do."""
    whole = np.asarray(leaf).reshape(-1)
    if whole.itemsize < np.dtype(np.int64).itemsize:
        return [whole.astype(np.float64)]
    low = whole & 0xFFFF_FFFF
    return [(whole - low).astype(np.float64), low.astype(np.float64)]
