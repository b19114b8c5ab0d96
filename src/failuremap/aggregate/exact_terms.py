"""Error-free steps on float64 arrays: what a rounding loses is kept, so that a sum of many terms stays exact.

Source: Knuth's TwoSum (The Art of Computer Programming, volume 2, 4.2.2); splitting into halves after Dekker (1971).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_MANTISSA_BITS = {"float16": 11, "float32": 24, "float64": 53}
_UPPER_26_BITS = np.uint64(0xFFFF_FFFF_F800_0000)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns (s, t): s is a + b rounded, and s + t is a + b exactly, where s is finite."""
    s = a + b
    shadow = s - a
    return s, (a - (s - shadow)) + (b - shadow)


def terms(values: Array, weight: int) -> Iterator[Array]:
    """Yields float64 arrays whose sum is weight * values exactly, where no product leaves float64's range.

    Args:
        values: float16, float32 or float64, of any shape.
        weight: 1 or more.
    """
    wide = values.astype(np.float64)
    if weight & (weight - 1) == 0:  # a power of two shifts the exponent alone
        yield wide * float(weight)
        return
    bits = _MANTISSA_BITS[values.dtype.name]
    halves = (wide,) if bits < 53 else _halves(wide)
    chunk = 53 - min(bits, 27)
    for shift in range(0, weight.bit_length(), chunk):
        part = weight >> shift & ((1 << chunk) - 1)
        for half in halves if part else ():
            yield half * float(part << shift)


def _halves(wide: Array) -> tuple[Array, Array]:
    """Splits each value into its upper 26 bits and the rest, both exact."""
    upper = (wide.view(np.uint64) & _UPPER_26_BITS).view(np.float64)
    return upper, np.where(np.isfinite(wide), wide - upper, 0.0)
