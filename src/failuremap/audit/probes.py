"""Batch sizes for a test run from whose ratios the cause can be read: each ratio has one explanation.

Where all batches are alike, a rule that ignores counts looks right; where one is twice another, a unit that weighs
twice may do so for its batch, or because something was added up twice. So the sizes are prime numbers, all different
and none a factor of the number of ranks or micro-batches, and what wrong rules compare (single batches, all batches of
a rank, all ranks' n-th batches, numbers of ranks and micro-batches) has no two ratios in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import count, permutations
from math import isqrt

from failuremap.errors import InvalidArgument

MOST = 256
"""Ranks times micro-batches, at most."""

Table = list[list[int]]


def sizes(nproc: int, micro_batches: int = 1, *, at_least: int = 2) -> Table:
    """Batch sizes by rank and micro-batch, prime and pairwise different.

    Args:
        nproc: Ranks.
        micro_batches: Micro-batches of one window.
        at_least: What the smallest size is not below.

    Raises:
        InvalidArgument: A number is below 1, or there would be more than 256 sizes.

    Example:
        >>> sizes(2, 3)
        [[5, 7, 11], [13, 17, 19]]
    """
    for name, value in {"nproc": nproc, "micro_batches": micro_batches, "at_least": at_least}.items():
        if value < 1:
            raise InvalidArgument(f"{name}={value}: 1 or more.")
    if nproc * micro_batches > MOST:
        raise InvalidArgument(f"nproc={nproc} with micro_batches={micro_batches}: at most {MOST} sizes in all.")
    primes = _primes(max(at_least, nproc + 1, micro_batches + 1, 5))
    table = [[next(primes) for _ in range(micro_batches)] for _ in range(nproc)]
    if nproc > 1 and micro_batches > 1:  # else there are no sums to be told apart
        _settle(table, primes)
    return table


def _settle(table: Table, primes: Iterator[int]) -> None:
    """Replaces sizes by larger ones until no two sums of them are in a ratio that is explained otherwise."""
    nproc, micro_batches = len(table), len(table[0])
    totals = _Totals({nproc, micro_batches, nproc * micro_batches})
    for row in table[:-1]:
        while (new := totals.new(sum(row))) is None:
            row[-1] = next(primes)
        totals.add(sum(row), new)
    # the last rank's sizes decide what the sums over all ranks are, and the very last of them its own sum, too
    for batch in range(micro_batches - 1):
        while (new := totals.new(_column(table, batch))) is None:
            table[-1][batch] = next(primes)
        totals.add(_column(table, batch), new)
    while True:
        new = totals.new(sum(table[-1]))
        if new is not None:
            both = _Totals(set())
            both.known, both.values = totals.known | new, [*totals.values, sum(table[-1])]
            if both.new(_column(table, micro_batches - 1)) is not None:
                return
        table[-1][-1] = next(primes)


def _column(table: Table, batch: int) -> int:
    return sum(row[batch] for row in table)


def ratios(table: Table) -> Iterator[tuple[Fraction, str]]:
    """What wrong rules make of these sizes: each ratio with the one thing that explains it.

    Args:
        table: Sizes by rank and micro-batch.
    """
    ranks, batches = len(table), len(table[0])
    cells = {f"rank {r}, micro-batch {b}": table[r][b] for r in range(ranks) for b in range(batches)}
    yield from _pairs(cells)
    if batches > 1 and ranks > 1:
        yield from _pairs({f"rank {r}": sum(row) for r, row in enumerate(table)})
        yield from _pairs({f"micro-batch {b}": sum(row[b] for row in table) for b in range(batches)})
    numbers = {ranks: "ranks", batches: "micro-batches", ranks * batches: "ranks x micro-batches"}
    for number, what in numbers.items():
        if number > 1:
            yield Fraction(number), what
            yield Fraction(1, number), f"1 / {what}"


def _pairs(named: dict[str, int]) -> Iterator[tuple[Fraction, str]]:
    for (first, one), (second, other) in permutations(named.items(), 2):
        yield Fraction(one, other), f"{first} to {second}"


class _Totals:
    """Sums of sizes; no two ratios of them are alike, and none is that of two primes, or a number of ranks."""

    def __init__(self, numbers: set[int]) -> None:
        self.known = {Fraction(1)} | {Fraction(number) for number in numbers} | {Fraction(1, n) for n in numbers}
        self.values: list[int] = []

    def new(self, total: int) -> set[Fraction] | None:
        """The ratios that a sum would add; None if one of them is explained already."""
        found = [ratio for value in self.values for ratio in (Fraction(total, value), Fraction(value, total))]
        taken = any(r in self.known or (_is_prime(r.numerator) and _is_prime(r.denominator)) for r in found)
        return None if taken or len(set(found)) < len(found) else set(found)

    def add(self, total: int, ratios: set[Fraction]) -> None:
        """Takes a sum in."""
        self.values.append(total)
        self.known |= ratios


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, isqrt(n) + 1))


def _primes(first: int) -> Iterator[int]:
    return filter(_is_prime, count(first))
