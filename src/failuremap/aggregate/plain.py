"""Aggregation on lists, by exact fractions: the living definition that every other backend must agree with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Rational, Real

from failuremap.errors import InvalidArgument
from failuremap.rules import Layout, known_rule

Number = int | float | Fraction


NAME = "a list"


def check(leaf: Sequence[Number], place: str) -> None:
    """Refuses a list that holds anything but real numbers."""
    for index, value in enumerate(leaf):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InvalidArgument(f"{place}[{index}]={value!r} is no number; a gradient is a list of numbers.")


def facts(leaf: Sequence[Number]) -> dict[str, object]:
    """Returns the shape."""
    return {"shape": (len(leaf),)}


def is_finite(leaf: Sequence[Number]) -> bool:
    """Returns whether no number is infinite or NaN."""
    return all(isinstance(value, Rational) or math.isfinite(value) for value in leaf)


def combine(leaves: Sequence[Sequence[Number]], weights: Sequence[int], rule: str) -> list[Number]:
    """Combines lists of numbers by a rule; the weights are 1 or more."""
    coefficients = known_rule(rule).coefficients(Layout.from_counts(weights))
    columns = zip(*leaves, strict=True)
    return [_combined(column, coefficients, divides=rule != "sum") for column in columns]


def _combined(column: tuple[Number, ...], weights: tuple[Fraction, ...], *, divides: bool) -> Number:
    """Returns sum of weight * value, exact where the values are, else rounded once."""
    floats = [float(value) for value in column if not isinstance(value, Rational)]
    unbounded = [value for value in floats if not math.isfinite(value)]
    if unbounded:
        return sum(unbounded)
    total = sum((weight * _exact(value) for weight, value in zip(weights, column, strict=True)), Fraction(0))
    if all(isinstance(value, Integral) for value in column):
        return _rounded(total) if divides else int(total)
    return _rounded(total) if floats else total


def _exact(value: Number) -> Fraction:
    if isinstance(value, Rational):  # as ints: a NumPy integer's own arithmetic wraps
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(float(value))


def _rounded(exact: Fraction) -> float:
    """Rounds to the nearest float; beyond the largest one to infinity, as float arithmetic does."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
