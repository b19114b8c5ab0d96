"""Aggregation on lists, by exact fractions: the living definition that every other backend must agree with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

from failuremap.aggregate.checks import tensor_advice
from failuremap.errors import InvalidArgument
from failuremap.rules import Layout, known_rule

Number = int | float | Fraction


def combine(contributions: Sequence[Sequence[Number]], counts: Sequence[int], rule: str) -> list[Number]:
    """Combines lists of numbers by a rule; [] where no contribution has a unit."""
    counted = [k for k, count in enumerate(counts) if count]
    for k in counted:
        _check_vector(contributions, k, counted[0])
    weights = known_rule(rule).coefficients(Layout.from_counts([counts[k] for k in counted]))
    columns = zip(*(contributions[k] for k in counted), strict=True)
    return [_combined(column, weights, divides=rule != "sum") for column in columns]


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
    return Fraction(value) if isinstance(value, Rational) else Fraction(float(value))


def _rounded(exact: Fraction) -> float:
    """Rounds to the nearest float; beyond the largest one to infinity, as float arithmetic does."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _check_vector(contributions: Sequence[Any], k: int, first: int) -> None:
    vector = contributions[k]
    if not isinstance(vector, list | tuple):
        raise InvalidArgument(
            f"contributions[{k}] is of type {type(vector).__name__}; expected a list of numbers, or a NumPy array."
            f"{tensor_advice(vector)}"
        )
    for index, value in enumerate(vector):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InvalidArgument(
                f"contributions[{k}][{index}]={value!r} is no number; a gradient is a list of numbers."
            )
    if len(vector) != len(contributions[first]):
        raise InvalidArgument(
            f"contributions[{k}] has shape ({len(vector)},) but contributions[{first}] has shape "
            f"({len(contributions[first])},); every contribution to one parameter has the same shape."
        )
