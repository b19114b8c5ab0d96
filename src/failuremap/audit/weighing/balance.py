"""Effective weights of one term at one step: who weighs what, against the fair share. Legend: K contributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.model import Cell
from failuremap.audit.steps.windows import Key
from failuremap.audit.weighing.weigh import Term
from failuremap.rules import Contribution, Layout, match
from failuremap.rules.known import mean, rank_means_of_window_weighted, window_means_of_rank_weighted

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# heaviest over lightest unit up to which weights count as equal
EVEN = 1.005
# relative error, five standard errors wide, up to which equal weights are believed
SURE = 0.01
# distance of the total weight from the promised one up to which it counts as kept
TOTAL = 0.01

# rules whose weights add up to 1, whatever the counts
_SHAPES = (mean, rank_means_of_window_weighted, window_means_of_rank_weighted)


@dataclass(frozen=True)
class Balance:
    """One term's effective weights."""

    term: Term
    keys: Sequence[Key]
    coefficients_K: Floats
    errors_K: Floats
    live_K: Mask
    promise: str

    @cached_property
    def weights_K(self) -> Floats:
        """c_k W_k / n_k: what one unit of each contribution weighs in the update."""
        return self.coefficients_K * self.term.unit_weights_K

    @cached_property
    def counted_K(self) -> Mask:
        """Contributions that hold units of this term and arrive."""
        return self.term.has_K & (self.term.counts_K > 0) & self.live_K

    @cached_property
    def unit_count(self) -> float:
        """N: all units of the term, those that never arrive included."""
        return float(self.term.counts_K[self.term.has_K].sum())

    @property
    def plain(self) -> bool:
        """Whether each loss is a mean that the script gives no weight, so that a factor comes from behind it."""
        totals = self.term.totals_K[self.counted_K]
        return bool(self.term.total_known and len(totals) and (np.abs(totals - 1) <= 1e-6).all())

    @property
    def lacking(self) -> list[int]:
        """Ranks without this mean, where they take their share of it: those that have it weigh as if all had."""
        here = {rank for (rank, _), has in zip(self.keys, self.term.has_K, strict=True) if has}
        others = sorted({rank for rank, _ in self.keys} - here)
        part = len(here) / (len(here) + len(others))
        return others if self.plain and not self.uneven and abs(self.total / part - 1) <= TOTAL else []

    @property
    def fair(self) -> float:
        """What one unit should weigh: 1/N for a mean, 1 for a sum."""
        return 1.0 if self.promise == "sum" else 1.0 / max(self.unit_count, 1e-300)

    @property
    def total(self) -> float:
        """All effective weights together, as a multiple of what was promised."""
        share = float((self.coefficients_K * self.term.totals_K)[self.term.has_K].sum())
        return share / max(self.unit_count, 1e-300) if self.promise == "sum" else share

    @property
    def ratio(self) -> float:
        """Heaviest over lightest unit; inf where signs differ, 1 where none has a weight, as in a term times 0."""
        weights = self.weights_K[self.counted_K]
        if not weights.any():
            return 1.0
        low, high = float(weights.min()), float(weights.max())
        if low * high <= 0:
            return float("inf")
        return max(high / low, low / high)

    @property
    def relative_error(self) -> float:
        """The largest relative standard error of a weight."""
        counted = self.counted_K
        if not counted.any():
            return 0.0
        size = np.maximum(np.abs(self.coefficients_K[counted]), 1e-300)
        return float((self.errors_K[counted] / size).max())

    @property
    def uneven(self) -> bool:
        """Whether units weigh differently, beyond doubt."""
        return bool(self.ratio > max(EVEN, 1 + 5 * np.sqrt(2) * self.relative_error))

    @property
    def off(self) -> bool:
        """Whether the total weight is not the promised one, beyond doubt; a gradient of zero hides its coefficient."""
        counting = self.term.has_K & (self.term.counts_K > 0)
        if not np.isfinite(self.errors_K[counting]).all():
            return False
        return self.term.total_known and abs(self.total - 1) > max(TOTAL, 5 * self.relative_error)

    def layout(self, observer: int, full_window: int) -> Layout:
        """The contributions of this term as rules know them."""
        parts = tuple(
            Contribution(rank, micro_batch, Fraction(count).limit_denominator(10**6))
            for (rank, micro_batch), count, has in zip(self.keys, self.term.counts_K, self.term.has_K, strict=True)
            if has
        )
        return Layout(parts, observer, full_window)

    def followed(self, observer: int, full_window: int, *, weighed: bool = False) -> list[str]:
        """Names of all known rules that the measured weights equal, the simpler first.

        Args:
            observer: The rank whose update it is.
            full_window: Micro-batches of the usual window.
            weighed: Whether the script may give the term a weight: rules of its shape go before those of a total then.
        """
        has = self.term.has_K
        shares = (self.coefficients_K * self.term.totals_K)[has]
        scale = np.abs(self.term.totals_K[has])
        errors = np.where(np.isfinite(self.errors_K[has]), self.errors_K[has], 0.0) * scale
        silent = ~np.isfinite(self.errors_K[has]) & ~self.live_K[has] & (scale > 0)
        errors[silent] = 2 * np.abs(shares).max(initial=0.0)  # a gradient of zero takes any coefficient
        layout = self.layout(observer, full_window)
        found = match(shares.tolist(), errors.tolist(), layout, tolerance=EVEN - 1)
        total = float(shares.sum())
        by_shape = total > 0 and self.uneven and not silent.any()
        if by_shape and (weighed or not found):  # the script may weigh the term, or clip
            parts, noise = (shares / total).tolist(), (errors / total).tolist()
            found = match(parts, noise, layout, _SHAPES, tolerance=EVEN - 1) or found
        return [fit.rule.name for fit in found]

    @property
    def by_counts(self) -> bool:
        """Whether coefficients are in proportion to counts that differ: the reduction weighs by them."""
        counts, coefficients = self.term.counts_K[self.counted_K], self.coefficients_K[self.counted_K]
        if len(counts) < 2 or counts.max() <= EVEN * counts.min() or self.relative_error > SURE:
            return False
        by_unit = coefficients / counts
        return bool(np.ptp(by_unit) <= max(EVEN - 1, 5 * np.sqrt(2) * self.relative_error) * np.abs(by_unit).max())

    @property
    def by_rows(self) -> bool:
        """Whether contributions weigh by their rows (sequences) where their units (tokens) should weigh the same."""
        rows_K, counted = self.term.rows_K, self.counted_K
        if rows_K is None or not self.uneven or not np.isfinite(self.ratio) or not (rows_K[counted] > 0).all():
            return False
        if np.ptp(rows_K[counted]) == 0:  # equal parts say as much of their number
            return False
        by_row = (self.coefficients_K * self.term.totals_K)[counted] / rows_K[counted]
        sure = max(EVEN - 1, 5 * np.sqrt(2) * self.relative_error)
        return bool(np.ptp(by_row) <= sure * np.abs(by_row).max())

    def cells(self) -> list[Cell]:
        """One cell for each contribution."""
        return [self._cell(k) for k in range(len(self.keys))]

    def _cell(self, k: int) -> Cell:
        rank, micro_batch = self.keys[k]
        known = bool(np.isfinite(self.errors_K[k]))
        has = bool(self.term.has_K[k])
        weight = float(self.weights_K[k]) if known and has and self.term.counts_K[k] > 0 else None
        return Cell(
            rank=rank, micro_batch=micro_batch,
            count=float(self.term.counts_K[k]) if has else None,
            coefficient=float(self.coefficients_K[k]) if known else None,
            coefficient_error=float(self.errors_K[k]) if known else None,
            loss_weight=float(self.term.unit_weights_K[k]) if has else None,
            effective_weight=weight, share=None if weight is None else weight / self.fair,
        )  # fmt: skip
