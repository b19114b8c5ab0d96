"""`exact_sum`: the nearest number to the exact sum, whatever the order, at the price of reading the data.

A block of float32 numbers whose exponents lie close together adds up in float64 without any rounding; that is the
certificate. Blocks without it go through `ExactSum`.

Legend: K contributions, D elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from failuremap.aggregate.exact_rounding import round_sum
from failuremap.aggregate.exact_state import ExactSum
from failuremap.aggregate.exact_terms import Array
from failuremap.errors import InvalidArgument

kernel: Any
try:
    kernel = import_module("failuremap.aggregate._exact")
except ImportError:  # built without a C compiler
    kernel = None

_FLOATS = ("float16", "float32", "float64")
_BLOCK = 1 << 10
# float64 has 53 bits, a float32 24: exponents may lie this far apart, less the bits that the weights' sum needs.
_SPARE_BITS = 29
_NOT_FINITE = 255  # float32's exponent of infinity and nan


def exact_sum(contributions: Sequence[Array], weights: Sequence[int] | None = None, divisor: int = 1) -> Array:
    """Returns sum over k of weights[k] * contributions[k] / divisor, rounded once, to the nearest.

    The result is that of exact arithmetic: the same bits for any order and grouping of the contributions. Infinity
    and NaN give what IEEE arithmetic gives; a sum that only passes beyond the largest number on its way stays finite.

    Args:
        contributions: K arrays of one shape and one dtype: float16, float32 or float64.
        weights: Whole numbers of 0 or more, one each; ones where not given. With 0 a contribution is skipped,
            whatever it holds.
        divisor: A whole number of 1 or more.

    Returns:
        An array of the contributions' shape and dtype; zeros where all weights are 0.

    Raises:
        InvalidArgument: Shapes, dtypes or lengths differ; a weight or the divisor is no such number.

    Example:
        >>> import numpy as np
        >>> exact_sum([np.array([1e16]), np.array([1.0]), np.array([-1e16])])
        array([1.])

    Source:
        Exponent-range certificate over float64; elsewhere TwoSum with fractions for what is left.
    """
    arrays, ks = _checked(contributions, weights, divisor)
    first = contributions[0]
    flat = [np.ascontiguousarray(array).reshape(-1) for array in arrays]
    out = np.empty(first.size, first.dtype) if flat else np.zeros(first.size, first.dtype)
    if flat:
        _fill(out, flat, ks, divisor)
    return out.reshape(first.shape)


def _fill(out: Array, rows: list[Array], weights: list[int], divisor: int) -> None:
    spare = _SPARE_BITS - sum(weights).bit_length()
    if out.dtype != np.float32 or spare < 0 or divisor >= 1 << 53:
        return _fill_slowly(out, rows, weights, divisor, slice(0, out.size))
    if kernel is not None:
        uncertified = np.zeros(-(-out.size // _BLOCK), np.uint8)
        kernel.weighted_sum(rows, weights, divisor, out, uncertified, _BLOCK)
        starts = [int(index) * _BLOCK for index in np.flatnonzero(uncertified)]
    else:
        starts = _fill_certified(out, rows, weights, divisor, spare)
    for start in starts:
        _fill_slowly(out, rows, weights, divisor, slice(start, min(start + _BLOCK, out.size)))
    return None


def _fill_slowly(out: Array, rows: list[Array], weights: list[int], divisor: int, block: slice) -> None:
    total = ExactSum(block.stop - block.start)
    for row, weight in zip(rows, weights, strict=True):
        total.add(row[block], weight)
    out[block] = total.rounded(divisor, out.dtype)


def _fill_certified(out: Array, rows: list[Array], weights: list[int], divisor: int, spare: int) -> list[int]:
    """Adds up all blocks in float64; returns the starts of those that may have lost a bit."""
    width = min(_BLOCK, out.size)
    total, scaled = np.empty(width), np.empty(width)
    bits = np.empty(width, np.uint32)
    uncertified = []
    for start in range(0, out.size, _BLOCK):
        block = slice(start, min(start + _BLOCK, out.size))
        size = block.stop - start
        parts = [row[block] for row in rows]
        if not _exponents_close(parts, bits[:size], spare):
            uncertified.append(start)
            continue
        _add_up(parts, weights, total[:size], scaled[:size])
        out[block], doubtful = round_sum(total[:size], None, divisor, out.dtype)
        if doubtful is not None:
            uncertified.append(start)
    return uncertified


def _exponents_close(parts: list[Array], bits: Array, spare: int) -> bool:
    """True where the largest exponent of all is at most `spare` above the smallest; zeros have none."""
    top, bottom = 0, _NOT_FINITE
    for part in parts:
        np.left_shift(part.view(np.uint32), 1, out=bits)  # without the sign
        top = max(top, int(bits.max()) >> 24)
        least = int(bits.min())
        if not least:
            np.subtract(bits, 1, out=bits)  # zero becomes the largest
            least = (int(bits.min()) + 1) % (1 << 32)
        bottom = min(bottom, least >> 24) if least else bottom
    return top != _NOT_FINITE and top - max(bottom, 1) <= spare


def _add_up(parts: list[Array], weights: list[int], total: Array, scaled: Array) -> None:
    total.fill(0.0)
    for part, weight in zip(parts, weights, strict=True):
        if weight == 1:
            np.add(total, part, out=total)
        else:
            np.multiply(part, float(weight), out=scaled, dtype=np.float64)
            np.add(total, scaled, out=total)


def _checked(contributions: Any, weights: Any, divisor: Any) -> tuple[list[Array], list[int]]:
    """Returns the arrays that have a weight, and these weights."""
    if not isinstance(contributions, list | tuple) or not contributions:
        raise InvalidArgument(
            f"contributions is {'empty' if isinstance(contributions, list | tuple) else type(contributions).__name__}; "
            "expected a list of one NumPy array or more."
        )
    ks = [1] * len(contributions) if weights is None else list(weights)
    if len(ks) != len(contributions):
        raise InvalidArgument(
            f"len(weights)={len(ks)} but there are {len(contributions)} contributions; give one weight for each."
        )
    for index, weight in enumerate(ks):
        _check_whole(f"weights[{index}]", weight, 0)
    _check_whole("divisor", divisor, 1)
    for index, array in enumerate(contributions):
        _check_array(array, index, contributions[0])
    return [array for array, weight in zip(contributions, ks, strict=True) if weight], [int(k) for k in ks if k]


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidArgument(f"{name}={value!r}; expected a whole number of {least} or more.")


def _check_array(array: Any, index: int, first: Any) -> None:
    if not isinstance(array, np.ndarray) or array.dtype.name not in _FLOATS:
        what = f"dtype {array.dtype}" if isinstance(array, np.ndarray) else f"type {type(array).__name__}"
        raise InvalidArgument(f"contributions[{index}] has {what}; expected a NumPy array of {', '.join(_FLOATS)}.")
    if (array.shape, array.dtype) != (first.shape, first.dtype):
        raise InvalidArgument(
            f"contributions[{index}] has shape {array.shape} and dtype {array.dtype}, but contributions[0] has shape "
            f"{first.shape} and dtype {first.dtype}; all have the same."
        )
