"""One rounding, to the nearest: an exact sum hi + lo, divided by a whole number, becomes a float16, float32 or float64.

Rounding twice (to float64, then to float32) may miss the nearest value. Here the first step rounds to odd: a result
that is not exact gets a last bit of 1, so that it lies on no midpoint of the narrower format.

Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd",
IEEE Transactions on Computers 57 (2008).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from failuremap.aggregate.exact_formats import FLOAT64, Format
from failuremap.aggregate.exact_terms import Array, two_sum

# Ziv's test: a correction known to 2^-48 of itself must not matter to the rounding.
_DOUBT = 2.0**-48
# Products and remainders below this may lose bits to underflow, above it to overflow.
_SAFE_BELOW, _SAFE_ABOVE = 2.0**900, 2.0**-900
_SPLITTER = 134217729.0  # 2^27 + 1, after Veltkamp


def round_sum(hi: Array, lo: Array | None, divisor: int, form: Format) -> tuple[Array, Array | None]:
    """Rounds (hi + lo) / divisor to a format; `hi` is hi + lo rounded to nearest, the divisor below 2^53.

    Returns:
        The rounded values, and a mask of those in doubt, which the caller rounds by fractions; None where none is.
    """
    if form is FLOAT64:
        return (hi, None) if divisor == 1 else _divided(hi, lo, divisor, form)
    if lo is not None:
        return (form.narrow(_to_odd(hi, lo)), None) if divisor == 1 else _divided(hi, lo, divisor, form)
    return _narrow_quotient(hi, divisor, form)


def round_fraction(value: Fraction, form: Format) -> Any:
    """Rounds an exact value to the nearest number of a format; beyond the largest one to infinity."""
    try:
        near = float(value)
    except OverflowError:
        return form.narrow(np.array([math.inf if value > 0 else -math.inf]))[0]
    rest = value - Fraction(near)
    pair = np.array([near]), np.array([float(rest > 0) - float(rest < 0)])
    with np.errstate(over="ignore"):
        return form.narrow(pair[0] if form is FLOAT64 else _to_odd(*pair))[0]


def _narrow_quotient(hi: Array, divisor: int, form: Format) -> tuple[Array, Array | None]:
    """Divides in float64; a second rounding can only miss where the first gave a midpoint of the narrower format."""
    quotient = hi if divisor == 1 else hi / divisor
    values, doubtful = form.narrow(quotient), None
    if divisor & (divisor - 1) == 0:  # by a power of two: exact
        return values, None
    dropped = 53 - form.bits
    midpoint = quotient.view(np.int64) & ((1 << dropped) - 1) == 1 << (dropped - 1)
    midpoint |= (np.abs(quotient) < form.tiny) & (quotient != 0)  # there, midpoints have other last bits
    at = np.flatnonzero(midpoint)
    if len(at):
        values[at], unsettled = _divided(hi[at], None, divisor, form)
        if unsettled is not None:
            doubtful = np.zeros(hi.size, bool)
            doubtful[at] = unsettled
    return values, doubtful


def _to_odd(near: Array, rest: Array) -> Array:
    """Moves a value that is not exact to the neighbour with an odd last bit, unless it has one.

    Args:
        near: The exact values, rounded to nearest.
        rest: Numbers of the sign of exact - near.
    """
    even = near.view(np.int64) & 1 == 0
    moved = np.nextafter(near, np.copysign(np.inf, rest))
    return np.where(even & (rest != 0) & np.isfinite(near), moved, near)


def _divided(hi: Array, lo: Array | None, divisor: int, form: Format) -> tuple[Array, Array | None]:
    """Divides by the quotient, the remainder's quotient, and a test whether that settles the rounding."""
    quotient = hi / divisor
    rest = _remainder(quotient, divisor, hi)
    correction = (rest if lo is None else rest + lo) / divisor
    near, left = two_sum(quotient, correction)
    near = np.where(np.isfinite(hi), near, hi)
    magnitude = np.abs(quotient)
    unsafe = (magnitude > _SAFE_BELOW / divisor) | ((magnitude < _SAFE_ABOVE) & (hi != 0))
    if form is FLOAT64:
        doubtful = (near + left * (1 + _DOUBT) != near) | (near + left * (1 - _DOUBT) != near)
        return near, _mask((doubtful | unsafe) & np.isfinite(hi))
    # A rest that is small beside its own correction may be the correction's error alone.
    doubtful = np.abs(left) <= np.abs(correction) * _DOUBT
    return form.narrow(_to_odd(near, left)), _mask(((doubtful & (correction != 0)) | unsafe) & np.isfinite(hi))


def _remainder(quotient: Array, divisor: int, hi: Array) -> Array:
    """Returns hi - quotient * divisor, exactly, where nothing under- or overflows."""
    whole = float(divisor)
    product = quotient * whole
    big = quotient * _SPLITTER
    upper = big - (big - quotient)
    lower = quotient - upper
    big_whole = whole * _SPLITTER
    upper_whole = big_whole - (big_whole - whole)
    lower_whole = whole - upper_whole
    error = ((upper * upper_whole - product) + upper * lower_whole + lower * upper_whole) + lower * lower_whole
    return (hi - product) - error


def _mask(doubtful: Array) -> Array | None:
    return doubtful if doubtful.any() else None
