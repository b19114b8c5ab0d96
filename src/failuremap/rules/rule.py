"""A rule: what is known about the contributions of one window -> the exact weight of each in the update.

Legend: K contributions, R ranks, M micro-batches of the window, n_k units behind contribution k, N units in all.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from failuremap.errors import InvalidArgument

Count = int | float | Fraction


@dataclass(frozen=True, slots=True)
class Contribution:
    """One backward pass: whose it is, and how many units its mean gradient is a mean over."""

    rank: int
    micro_batch: int
    count: Count

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int | float | Fraction):
            raise InvalidArgument(f"count={self.count!r} is no number; {self._expected()}")
        if self.count < 0 or (isinstance(self.count, float) and not math.isfinite(self.count)):
            raise InvalidArgument(f"count={self.count!r} is negative or not finite; {self._expected()}")

    def _expected(self) -> str:
        return (
            "a count is how many units the gradient is a mean over, so 0 or more"
            f" (rank {self.rank}, micro-batch {self.micro_batch})."
        )


@dataclass(frozen=True)
class Layout:
    """The contributions of one window, and the rank whose update is looked at.

    Args:
        contributions: At most one for each rank and micro-batch, in any order.
        observer: The rank whose update is looked at; matters where replicas step on different updates.
        full_window: Micro-batches of a full window; those present where it is not given.

    Example:
        >>> layout = Layout.from_counts([3, 5])
        >>> layout.rank_count, layout.micro_batch_count, layout.total_count
        (2, 1, Fraction(8, 1))
    """

    contributions: tuple[Contribution, ...]
    observer: int = 0
    full_window: int | None = None

    def __post_init__(self) -> None:
        cells = Counter((part.rank, part.micro_batch) for part in self.contributions)
        doubled = next((cell for cell, times in cells.items() if times > 1), None)
        if doubled:
            raise InvalidArgument(
                f"contributions: (rank, micro_batch)={doubled} is there {cells[doubled]} times;"
                " each rank has at most one contribution in a micro-batch. Number the micro-batches of a window."
            )
        if self.full_window is not None and self.full_window < 1:
            raise InvalidArgument(f"full_window={self.full_window} is below 1; a window has 1 micro-batch or more.")

    @classmethod
    def from_counts(cls, counts: Sequence[Count]) -> Layout:
        """Makes a layout of one micro-batch, with one rank for each count."""
        return cls(tuple(Contribution(rank, 0, count) for rank, count in enumerate(counts)))

    @classmethod
    def grid(
        cls, counts: Mapping[tuple[int, int], Count], *, observer: int = 0, full_window: int | None = None
    ) -> Layout:
        """Makes a layout of a mapping (rank, micro_batch) -> count, in the mapping's order."""
        parts = tuple(Contribution(rank, micro_batch, count) for (rank, micro_batch), count in counts.items())
        return cls(parts, observer, full_window)

    @cached_property
    def counts(self) -> tuple[Fraction, ...]:
        """n_k: the units of each contribution, in the layout's order."""
        return tuple(Fraction(part.count) for part in self.contributions)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that contribute, ascending."""
        return tuple(sorted({part.rank for part in self.contributions}))

    @cached_property
    def micro_batches(self) -> tuple[int, ...]:
        """The micro-batches of this window, ascending."""
        return tuple(sorted({part.micro_batch for part in self.contributions}))

    @cached_property
    def total_count(self) -> Fraction:
        """N: the units of the whole window, over all ranks."""
        return sum(self.counts, Fraction(0))

    @property
    def rank_count(self) -> int:
        """R: the ranks that contribute."""
        return len(self.ranks)

    @property
    def micro_batch_count(self) -> int:
        """M: the micro-batches of this window."""
        return len(self.micro_batches)

    @property
    def full_window_count(self) -> int:
        """G: the micro-batches of a full window."""
        return self.micro_batch_count if self.full_window is None else self.full_window

    def rank_total(self, rank: int) -> Fraction:
        """N_r: the units of one rank in the window."""
        return self._rank_totals.get(rank, Fraction(0))

    def micro_batch_total(self, micro_batch: int) -> Fraction:
        """N_m: the units of one micro-batch, over all ranks."""
        return self._micro_batch_totals.get(micro_batch, Fraction(0))

    def rank_size(self, rank: int) -> int:
        """Counts the contributions of one rank."""
        return self._sizes[0][rank]

    def micro_batch_size(self, micro_batch: int) -> int:
        """Counts the contributions of one micro-batch, over all ranks."""
        return self._sizes[1][micro_batch]

    def seen_by(self, observer: int) -> Layout:
        """Makes the same layout for the update of another rank."""
        return replace(self, observer=observer)

    @cached_property
    def _rank_totals(self) -> dict[int, Fraction]:
        return self._totals(lambda part: part.rank)

    @cached_property
    def _micro_batch_totals(self) -> dict[int, Fraction]:
        return self._totals(lambda part: part.micro_batch)

    @cached_property
    def _sizes(self) -> tuple[Counter[int], Counter[int]]:
        return Counter(part.rank for part in self.contributions), Counter(p.micro_batch for p in self.contributions)

    def _totals(self, key: Callable[[Contribution], int]) -> dict[int, Fraction]:
        totals: dict[int, Fraction] = defaultdict(Fraction)
        for part, count in zip(self.contributions, self.counts, strict=True):
            totals[key(part)] += count
        return totals


@dataclass(frozen=True)
class Rule:
    """A way of adding gradients up: the weight of each contribution's mean gradient in the update.

    Attributes:
        name: Identifier, such as `weighted_mean`.
        title: Words for a report; `{unit}` stands for what one unit is called.
        formula: The weight of contribution k, in the letters of this module's legend.
        coefficients: Layout -> one exact weight for each contribution, in the layout's order.

    Example:
        >>> one = Rule("sum", "sum of the means", "1", lambda layout: tuple(Fraction(1) for _ in layout.contributions))
        >>> one.coefficients(Layout.from_counts([3, 5]))
        (Fraction(1, 1), Fraction(1, 1))
    """

    name: str
    title: str
    formula: str
    coefficients: Callable[[Layout], tuple[Fraction, ...]]
    weights: Callable[[Layout], Iterator[Fraction]] | None = None
    """The coefficients one by one, where they can be had so: most rules are seen not to fit by the first."""

    def one_by_one(self, layout: Layout) -> Iterator[Fraction]:
        """Yields the coefficients of a layout."""
        return iter(self.coefficients(layout)) if self.weights is None else self.weights(layout)

    def words(self, unit: str = "unit") -> str:
        """Says the rule's title for the unit that a job counts: token, example or sequence."""
        return self.title.replace("{unit}", unit)
