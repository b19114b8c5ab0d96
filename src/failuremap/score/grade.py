"""Holds one answer of a candidate to the exact one: right, wrong, or not an answer at all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from failuremap.score.exact import Exact, nearest
from failuremap.score.oracle import Answer

_NO_DIGIT = 2.0**53
Number = int | float | Fraction
NUMBERS = (int, float, Fraction)


class Malformed(Exception):
    """What came back has not the form of an answer; the message says in which way, and tells nothing of the input."""


class Grade(NamedTuple):
    """How an answer does."""

    right: bool
    nearest: bool
    """Each number of it is the float that is nearest to the exact one."""


def is_right(actual: Any, answer: Answer) -> bool:
    """Says whether an answer is right, each number within its bound.

    Raises:
        Malformed: There is something else where the contract wants a list or a number.

    Example:
        >>> from failuremap.catalogue import mechanism
        >>> from failuremap.score.oracle import exact_answer
        >>> third = exact_answer(mechanism("replica-means-ignore-counts"), [([1], 1), ([0], 2)])
        >>> is_right([1 / 3], third), is_right([0.3333], third), is_right([], third)
        (True, False, False)
    """
    return graded(actual, answer).right


def graded(actual: Any, answer: Answer) -> Grade:
    """Returns whether an answer is right, and whether it is nothing but the nearest floats, as most are.

    Raises:
        Malformed: As `is_right` does.
    """
    fits = nearest = True
    for place, (seen, right) in enumerate(_pairs(actual, answer.value)):
        if right is not None and _is_nearest(seen, right):
            continue
        nearest = False
        fits = fits and right is not None and _is_close(seen, right, answer, place)
    return Grade(fits, nearest)


def worst_ulps(actual: Any, answer: Answer) -> float:
    """Returns how far a right answer is from the exact one rounded once, in units of its last place.

    Example:
        >>> from failuremap.catalogue import mechanism
        >>> from failuremap.score.oracle import exact_answer
        >>> third = exact_answer(mechanism("replica-means-ignore-counts"), [([1], 1), ([0], 2)])
        >>> worst_ulps([1 / 3], third), worst_ulps([1 / 3 + 2**-54], third)
        (0.0, 1.0)
    """
    distances = [_ulps(seen, right) for seen, right in _pairs(actual, answer.value)]
    return max(distances, default=0.0)


def same(one: Any, other: Any) -> bool:
    """Says whether two values agree in type and in every bit; a nan agrees with a nan.

    Example:
        >>> same([0.0], [-0.0]), same([1], [1.0]), same([float("nan")], [float("nan")])
        (False, False, True)
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, float):
        return one.hex() == float(other).hex()
    return bool(one == other)


def _pairs(actual: Any, right: Any) -> Iterator[tuple[Any, Any]]:
    """Yields each number beside the one that is right; None stands for a part that one of both has not."""
    if not isinstance(right, list):
        if type(actual) not in NUMBERS:
            raise Malformed(f"{_article(actual)} where a number is expected")
        yield actual, right
        return
    if type(actual) is not list:
        raise Malformed(f"{_article(actual)} where a list is expected")
    if len(actual) != len(right):
        yield None, None
        return
    for seen, part in zip(actual, right, strict=True):
        yield from _pairs(seen, part)


def _is_nearest(seen: Number, right: Exact | float) -> bool:
    if isinstance(right, Exact):
        return bool(seen == nearest(right.value))
    return seen == right or (math.isnan(right) and math.isnan(seen))


def _is_close(seen: Number, right: Exact | float, answer: Answer, place: int) -> bool:
    if not isinstance(right, Exact) or (isinstance(seen, float) and not math.isfinite(seen)):
        return False
    return bool(abs(Fraction(seen) - right.value) <= answer.bound(right, place))


def _ulps(seen: Any, right: Any) -> float:
    if not isinstance(right, Exact):
        return 0.0
    rounded = nearest(right.value)
    if seen in (rounded, right.value):
        return 0.0
    # Beside an exact 0 the ulp is so small that the quotient may be no float.
    distance = abs(Fraction(seen) - Fraction(rounded)) / Fraction(math.ulp(rounded))
    return _NO_DIGIT if distance > _NO_DIGIT else float(distance)


def _article(value: Any) -> str:
    name = "None" if value is None else type(value).__name__
    return name if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
