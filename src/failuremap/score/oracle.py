"""The exact answer to one input, and how far rounding may take an honest repair from it.

The repair itself, given exact numbers, computes the answer; tests hold it to the promised rule, or to its law.

Bounds, with u = 2^-53 and K contributions:

* where nothing was divided and float64 holds every partial sum, rounding changes nothing: 0;
* a contract that is a rule: 4 (K+2) u M, where M is the larger of the sum of |c_k g_k|, by which rounding errors of a
  sum are bounded, and of max |g_k| over the contributions that weigh something, which bounds what a running mean holds;
* a contract that a law states: 4 (L+2) L u M, M the bound of `exact.py` and L the numbers in the input: a running mean
  of L numbers, each of which weighs at least M/L, holds at most L M.

The honest algorithms of the tests need a tenth of this at most. A wrong rule is off by a part of M that is far larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isfinite
from typing import Any

from failuremap.catalogue.mechanism import Mechanism
from failuremap.rules import known_rule
from failuremap.score.exact import Exact, lifted, root

UNIT_ROUNDOFF = 2.0**-53
SLACK = 4
# The smallest floats lie evenly: a rounding error is no longer relative, and a count of up to 2^20 multiplies it.
_SMALLEST = 2.0**-1054


@dataclass(frozen=True, eq=False)
class Answer:
    """What is right for one input.

    Attributes:
        entry: The mechanism whose contract says so.
        given: The input.
        value: Lists of numbers as the contract wants them; each is an `Exact`, or a float that is to be met exactly.
    """

    entry: Mechanism
    given: Any
    value: Any

    def bound(self, element: Exact, place: int) -> float:
        """Returns how far from an element of the answer a number may be; `place` counts in the order of reading."""
        if element.held_exactly:
            return 0.0
        if self.entry.promised:
            peaks, count = self.contributions
            size, factor = max(element.size, peaks[place]), 1
        else:
            count = self.number_count
            size, factor = element.size, count
        return SLACK * (count + 2) * factor * (UNIT_ROUNDOFF * size + _SMALLEST)

    @cached_property
    def number_count(self) -> int:
        """L: how many numbers the input holds."""
        return sum(1 for _ in numbers_of(self.given))

    @cached_property
    def contributions(self) -> tuple[tuple[float, ...], int]:
        """The largest contribution to each element, of those that weigh something; and how many there are."""
        weighing, count = _weighing(self.entry, self.given)
        columns = zip(*(gradient for gradient, _ in weighing), strict=True)
        return tuple(max((abs(float(g)) for g in column if isfinite(g)), default=0.0) for column in columns), count


def exact_answer(entry: Mechanism, given: Any) -> Answer:
    """Computes what is right for an input of the mechanism's domain, in fractions.

    Example:
        >>> from failuremap.catalogue import mechanism
        >>> exact_answer(mechanism("replica-means-ignore-counts"), [([1.0], 1), ([2.0], 2)]).value
        [Exact(5/3)]
    """
    stages = entry.stages
    assert stages is not None
    exact = lifted(given)
    return Answer(entry, given, _settled(stages.exact(exact, root) if stages.exact else stages.fixed(exact)))


def rule_answer(entry: Mechanism, given: Any) -> list[Fraction]:
    """Computes the same by the promised rule: the sum of the contributions, each times its coefficient."""
    terms = [[weight * Fraction(value) for value in gradient] for gradient, weight in _weighing(entry, given)[0]]
    return [sum(column, Fraction(0)) for column in zip(*terms, strict=True)]


def numbers_of(given: Any) -> Iterator[float]:
    """Yields the numbers in an input, in the order of reading."""
    if isinstance(given, dict):
        given = list(given.values())
    if isinstance(given, list | tuple):
        for part in given:
            yield from numbers_of(part)
    elif isinstance(given, int | float) and not isinstance(given, bool):
        yield given


def _settled(value: Any) -> Any:
    """Makes plain integers exact; floats stay: they are rounded on purpose, or are nan."""
    if isinstance(value, list | tuple):
        return [_settled(part) for part in value]
    return Exact.of(value) if isinstance(value, int | Fraction) else value


def _weighing(entry: Mechanism, given: Any) -> tuple[list[tuple[list[Any], Fraction]], int]:
    """Returns the contributions that weigh something, with their weights, and the number of all."""
    assert entry.stages is not None
    assert entry.stages.contributions is not None
    gradients, layout = entry.stages.contributions(given)
    weights = known_rule(entry.promised).coefficients(layout)
    return [(gradient, weight) for gradient, weight in zip(gradients, weights, strict=True) if weight], len(weights)
