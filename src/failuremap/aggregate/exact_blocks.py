"""The nearest numbers to sum_k w_k * g_k / divisor, at the price of reading the data, where that is possible.

Numbers whose exponents lie close together add up in float64 without any rounding; that is the certificate. Where it is
missing, `ExactSum` adds up.

Legend: K contributions, D elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from failuremap.aggregate.exact_formats import FLOAT32, FLOAT64, Format
from failuremap.aggregate.exact_rounding import round_sum
from failuremap.aggregate.exact_state import ExactSum
from failuremap.aggregate.exact_terms import Array

kernel: Any
try:
    kernel = import_module("failuremap.aggregate._exact")
except ImportError:  # built without a C compiler
    kernel = None

_CHUNK = 1 << 15  # elements worked on at a time: their float64 temporaries stay in the cache
_FEW = 1 / 64  # of the elements of a chunk
_MANTISSA_BITS = 53
# Bits of float32.
_INFINITE, _ALL_BUT_SIGN, _ONES = 0x7F80_0000, np.uint32(0x7FFF_FFFF), np.uint32(0xFFFF_FFFF)


def nearest_sum(rows_KD: Sequence[Array], weights_K: Sequence[int], divisor: int, form: Format) -> Array:
    """Returns sum over k of weights[k] * rows[k] / divisor, each element rounded once to the nearest of the format.

    Args:
        rows_KD: One flat, native, aligned array or more, of the format's storage.
        weights_K: 1 or more, each.
        divisor: 1 or more.
    """
    common = math.gcd(divisor, *weights_K)
    weights, divisor = [weight // common for weight in weights_K], divisor // common
    out = np.empty(rows_KD[0].size, form.storage)
    spare = _MANTISSA_BITS - form.bits - sum(weights).bit_length()
    by_kernel = kernel is not None and max(weights).bit_length() <= _MANTISSA_BITS
    certified = (by_kernel if form is FLOAT64 else spare >= 0) and divisor.bit_length() <= _MANTISSA_BITS
    # The kernel takes float32 and float64 as they are: no temporaries, and so no chunks.
    whole = kernel is not None and form in (FLOAT32, FLOAT64)
    width = max(out.size, 1) if whole else min(_CHUNK, out.size) or 1
    add_up = _Kernel(width, spare, form) if kernel is not None else _NumPy(width, spare, form)
    with np.errstate(all="ignore"):
        for start in range(0, out.size, width):
            rows = [form.widen(row[start : start + width]) for row in rows_KD]
            place = out[start : start + width]
            left = add_up(rows, weights, divisor, place) if certified else slice(None)
            _fill_slowly(place, left, rows, weights, divisor, form)
    return out


def _fill_slowly(
    out: Array, at: Array | slice, rows: list[Array], weights: list[int], divisor: int, form: Format
) -> None:
    """Fills the elements at some indices."""
    size = out[at].size
    if not size:
        return
    total = ExactSum(size)
    for row, weight in zip(rows, weights, strict=True):
        total.add(row[at], weight=weight)
    out[at] = total.rounded(divisor, form)


class _Kernel:
    """Fills a chunk by the compiled kernel; called, it returns the indices that are left."""

    def __init__(self, width: int, spare: int, form: Format) -> None:
        self.spare, self.form = -1 if form is FLOAT64 else spare, form
        self.wide = None if form in (FLOAT32, FLOAT64) else np.empty(width)
        self.flags = np.zeros(-(-width // kernel.BLOCK), np.uint8)

    def __call__(self, rows: list[Array], weights: list[int], divisor: int, out: Array) -> Array:
        wide = out if self.wide is None else self.wide[: out.size]
        flags = self.flags[: -(-out.size // kernel.BLOCK)]
        by_shift = divisor & (divisor - 1) == 0  # a power of two divides the weights without loss
        factors, divisor = ([weight / divisor for weight in weights], 1) if by_shift else (weights, divisor)
        failed_count = kernel.weighted_sum(tuple(rows), tuple(factors), divisor, self.spare, wide, flags)
        if wide is not out:
            out[:] = self.form.narrow(wide)
        return np.flatnonzero(np.repeat(flags, kernel.BLOCK)[: out.size]) if failed_count else np.empty(0, int)


class _NumPy:
    """Fills a chunk by NumPy; called, it returns the indices that are left."""

    def __init__(self, width: int, spare: int, form: Format) -> None:
        self.spare, self.form = spare, form
        self.total, self.scaled = np.empty(width), np.empty(width)
        self.bits, self.most, self.least = (np.empty(width, dtype) for dtype in (np.uint32, np.int32, np.uint32))

    def __call__(self, rows: list[Array], weights: list[int], divisor: int, out: Array) -> Array:
        lost = self._may_lose_bits(rows, skips_zeros=False)
        if np.count_nonzero(lost) > _FEW * lost.size:
            lost = self._may_lose_bits(rows, skips_zeros=True)
        total, scaled = self.total[: out.size], self.scaled[: out.size]
        total.fill(0.0)
        for row, weight in zip(rows, weights, strict=True):
            if weight == 1:
                np.add(total, row, out=total)
            else:
                np.multiply(row, float(weight), out=scaled, dtype=np.float64)
                np.add(total, scaled, out=total)
        out[:], doubtful = round_sum(total, None, divisor, self.form)
        return np.flatnonzero(lost if doubtful is None else lost | doubtful)

    def _may_lose_bits(self, rows: list[Array], *, skips_zeros: bool) -> Array:
        """Returns where exponents lie too far apart; a zero has none, but to skip it takes one more pass."""
        size = rows[0].size
        bits, most, least = self.bits[:size], self.most[:size], self.least[:size]
        most.fill(-1)
        least.fill(_ONES)
        for row in rows:
            np.bitwise_and(row.view(np.uint32), _ALL_BUT_SIGN, out=bits)
            if skips_zeros:
                np.subtract(bits, 1, out=bits)  # zeros become the largest, or -1 with a sign
            np.maximum(most, bits.view(np.int32), out=most)
            np.minimum(least, bits, out=least)
        if skips_zeros:
            most += 1
            least += 1  # only zeros: 0 again, and nothing to lose
        # Exponents differ by at most `spare` where the numbers' ratio is at most 2^(spare - 1).
        lost: Array = most.view(np.float32) * np.float32(2.0 ** (1 - self.spare)) > least.view(np.float32)
        if int(most.max()) >= _INFINITE:  # or nan, of which no comparison holds
            lost |= most >= _INFINITE
        return lost
