"""Arrays that make sums hard, and the nearest number to an exact result by another route."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

DTYPES = ("float16", "float32", "float64")
_EXPONENTS = {"float16": (-24, 13), "float32": (-149, 125), "float64": (-1070, 1020)}


def hard_rows(rng: np.random.Generator, dtype: str, size: int, row_count: int) -> list[np.ndarray]:
    """Draw rows of one kind: of like size, of any exponent, of powers of two; half of the time they nearly cancel."""
    kind = rng.integers(3)
    rows = []
    for _ in range(row_count):
        values = rng.standard_normal(size)
        if kind == 1:
            values *= np.exp2(rng.integers(*_EXPONENTS[dtype], size).astype(float))
        elif kind == 2:
            values = np.exp2(rng.integers(-12, 12, size).astype(float)) * rng.choice([-1.0, 1.0], size)
        rows.append(values.astype(dtype))
    if rng.random() < 0.5:
        rows += [-row for row in rows[1:]]
    return rows


def exact_value(rows: Sequence[np.ndarray], weights: Sequence[int], divisor: int, index: int) -> Fraction:
    """Add one element up in fractions."""
    return (
        sum((Fraction(float(row[index])) * weight for row, weight in zip(rows, weights, strict=True)), Fraction(0))
        / divisor
    )


def nearest(value: Fraction, dtype: str) -> float:
    """Round to nearest, ties to even, by trying the neighbours; beyond the largest number to infinity."""
    limits = np.finfo(dtype)
    beyond = Fraction(float(limits.max)) + Fraction(2) ** (limits.maxexp - limits.nmant - 2)
    if abs(value) >= beyond:
        return math.copysign(math.inf, value)
    try:
        double = value.numerator / value.denominator
    except OverflowError:
        double = math.copysign(float(np.finfo(np.float64).max), value)
    with np.errstate(over="ignore"):
        near = np.float64(double).astype(dtype)
        around = [near, *(np.nextafter(near, np.array(limit, dtype)) for limit in (np.inf, -np.inf))]
    finite = [one for one in around if np.isfinite(one)]
    return float(min(finite, key=lambda one: (abs(Fraction(float(one)) - value), one.tobytes()[0] & 1)))
