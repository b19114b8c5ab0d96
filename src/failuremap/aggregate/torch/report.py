"""What an update really holds: which ranks, with which counts and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Report:
    """The contributions to the last step, as they arrived.

    Attributes:
        rule: `weighted_mean`, `sum` or `mean`.
        counts: Rank -> what it put in: units for `weighted_mean`, else micro-batches; all ranks of the group.
        joined: Ranks that had no data left, under `Join`.
        excluded: Ranks left out because their gradient was not finite, under `nonfinite="exclude"`.
        exact: Whether the sum was that of exact arithmetic, rounded once.

    Example:
        >>> report = Report("weighted_mean", {0: 6, 1: 0, 2: 2})
        >>> report.ranks, report.total
        ((0, 2), 8)
        >>> report.coefficients[0]
        Fraction(3, 4)
    """

    rule: str
    counts: Mapping[int, int]
    joined: tuple[int, ...] = ()
    excluded: tuple[int, ...] = ()
    exact: bool = False

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that the update holds something of."""
        return tuple(rank for rank, count in self.counts.items() if count)

    @property
    def total(self) -> int:
        """N: what all ranks put in; with 0 there was no update."""
        return sum(self.counts.values())

    @property
    def coefficients(self) -> dict[int, Fraction]:
        """Rank -> the weight in the update of the mean over what the rank put in."""
        divisor = 1 if self.rule == "sum" else self.total
        return {rank: Fraction(count, divisor) if divisor else Fraction(0) for rank, count in self.counts.items()}
