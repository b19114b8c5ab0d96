"""The floating-point formats of gradients: each widened without loss, and a float64 rounded to it once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from failuremap.aggregate.exact_terms import Array


@dataclass(frozen=True, eq=False)
class Format:
    """A floating-point format.

    Attributes:
        name: Its name as a dtype.
        bits: Bits of the mantissa, with the hidden one.
        tiny: The smallest normal number.
        storage: What arrays of it hold; bits, where NumPy has no such dtype.
        widen: Array of storage -> float32 or float64, the same numbers.
        narrow: float64 -> array of storage, each rounded once to nearest, ties to even.
    """

    name: str
    bits: int
    tiny: float
    storage: np.dtype[Any]
    widen: Callable[[Array], Array]
    narrow: Callable[[Array], Array]


def bfloat16_bits(values: Array) -> Array:
    """Rounds float64 numbers to bfloat16 once; returns the bits, as uint16.

    Example:
        >>> [hex(bits) for bits in bfloat16_bits(np.array([1.0, 1 + 2**-8 + 2**-40]))]
        ['0x3f80', '0x3f81']
    """
    near = values.astype(np.float32)
    wide = near.astype(np.float64)
    # Rounded to odd first: towards zero, then a last bit of 1 where that is not exact.
    bits: Array = near.view(np.uint32) - (np.abs(wide) > np.abs(values)).astype(np.uint32)
    bits |= wide != values
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, bits).astype(np.uint16)


def _bfloat16_values(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _cast(name: str, wide: str) -> Format:
    dtype, limits = np.dtype(name), np.finfo(name)

    def widen(values: Array) -> Array:
        return values.astype(wide, copy=False)

    def narrow(values: Array) -> Array:
        return values.astype(dtype, copy=False)

    return Format(name, limits.nmant + 1, float(limits.tiny), dtype, widen, narrow)


FLOAT16 = _cast("float16", "float32")
BFLOAT16 = Format("bfloat16", 8, 2.0**-126, np.dtype(np.uint16), _bfloat16_values, bfloat16_bits)
FLOAT32 = _cast("float32", "float32")
FLOAT64 = _cast("float64", "float64")
FORMATS = {form.name: form for form in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)}


def as_format(dtype: np.dtype[Any] | Format) -> Format:
    """Returns the format of a dtype that has one."""
    return dtype if isinstance(dtype, Format) else FORMATS[dtype.name]
