"""A rule as a product of powers, found by asking the rule itself: what a page needs to apply it to any counts.

    c_k = n^a N^b R^c M^d G^e N_r^f N_m^g (R^after_k)^h,  or 0 where the rule leaves contribution k out

The letters are those of `failuremap.rules.known`; `after_k` is the number of micro-batches of the window after k's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Literal

import numpy as np

from failuremap.rules import Contribution, Layout, Rule

Holds = Literal["all", "first micro-batch", "last micro-batch", "first rank", "own rank"]
LETTERS = ("n", "N", "R", "M", "G", "N_r", "N_m", "R^after")


@dataclass(frozen=True)
class Form:
    """The weight of contribution k: a product of powers of `LETTERS`, on the contributions that the rule holds.

    A contribution without units weighs nothing where n has a power.
    """

    powers: tuple[int, ...]
    holds: Holds

    def weight(self, layout: Layout, part: Contribution) -> Fraction:
        """Returns the weight of one contribution of a layout, in which every rank has every micro-batch."""
        if not held(layout, part)[self.holds] or (self.powers[0] and not part.count):
            return Fraction(0)
        pairs = zip(_values(layout, part), self.powers, strict=True)
        return math.prod((value**power for value, power in pairs if power), start=Fraction(1))


@cache
def form_of(rule: Rule) -> Form:
    """Finds the form of a rule; it is checked on layouts of other sizes before it is returned.

    Example:
        >>> from failuremap.rules import known_rule
        >>> form_of(known_rule("rank_means_of_window_weighted"))
        Form(powers=(1, 0, -1, 0, 0, -1, 0, 0), holds='all')
    """
    layouts = list(_layouts())
    form = Form(_powers(rule, layouts), _holds(rule, layouts))
    for layout in layouts:
        expected = tuple(form.weight(layout, part) for part in layout.contributions)
        assert rule.coefficients(layout) == expected, f"rule={rule.name!r} is no product of powers of {LETTERS}"
    return form


def held(layout: Layout, part: Contribution) -> dict[Holds, bool]:
    """Says of each way of leaving contributions out whether it holds this one."""
    return {
        "all": True,
        "first micro-batch": part.micro_batch == layout.micro_batches[0],
        "last micro-batch": part.micro_batch == layout.micro_batches[-1],
        "first rank": part.rank == layout.ranks[0],
        "own rank": part.rank == layout.observer,
    }


def _values(layout: Layout, part: Contribution) -> tuple[Fraction, ...]:
    after = sum(later > part.micro_batch for later in layout.micro_batches)
    counts = (Fraction(part.count), layout.total_count)
    sizes = (layout.rank_count, layout.micro_batch_count, layout.full_window_count)
    totals = (layout.rank_total(part.rank), layout.micro_batch_total(part.micro_batch))
    return (*counts, *map(Fraction, sizes), *totals, Fraction(layout.rank_count) ** after)


def _layouts() -> Iterator[Layout]:
    """Yields layouts in which no two letters always have the same ratio."""
    for ranks, window, full in ((2, 3, 5), (3, 2, 7), (5, 4, 4), (4, 1, 3), (1, 4, 6), (3, 5, 2)):
        counts = {
            (rank, mb): 1 + (7 * rank * rank + 5 * mb + rank * mb) for rank in range(ranks) for mb in range(window)
        }
        yield Layout.grid(counts, full_window=full, observer=ranks - 1)
    yield Layout.grid({(0, 0): 0, (0, 1): 3, (1, 0): 2, (1, 1): 0})


def _powers(rule: Rule, layouts: list[Layout]) -> tuple[int, ...]:
    """Solves for the powers: the logarithm of a product of powers is linear in them."""
    seen = [
        (_values(layout, part), weight)
        for layout in layouts
        for part, weight in zip(layout.contributions, rule.coefficients(layout), strict=True)
        if weight and part.count
    ]
    letters = np.array([[math.log(value) for value in values] for values, _ in seen])
    weights = np.array([math.log(weight) for _, weight in seen])
    return tuple(int(power) for power in np.rint(np.linalg.lstsq(letters, weights, rcond=None)[0]))


def _holds(rule: Rule, layouts: list[Layout]) -> Holds:
    """Returns the one way of leaving out that explains which weights are 0."""
    ways: tuple[Holds, ...] = ("all", "first micro-batch", "last micro-batch", "first rank", "own rank")
    fitting = [way for way in ways if all(_explains(rule, layout, way) for layout in layouts)]
    assert len(fitting) == 1, f"rule={rule.name!r} leaves contributions out in a way that has no name here"
    return fitting[0]


def _explains(rule: Rule, layout: Layout, way: Holds) -> bool:
    pairs = zip(layout.contributions, rule.coefficients(layout), strict=True)
    return all(bool(weight) == held(layout, part)[way] for part, weight in pairs if part.count)
