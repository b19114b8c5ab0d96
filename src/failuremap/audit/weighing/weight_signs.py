"""What the counts, the coefficients and the scales of the losses at one step are signs of."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from failuremap.audit.faults import Asked
from failuremap.audit.fitting.observe import Fitted
from failuremap.audit.weighing.balance import TOTAL, Balance
from failuremap.catalogue.signs import Sign


def weight_signs(balance: Balance, fitted: Fitted, asked: Asked) -> set[Sign]:
    """What the counts, the coefficients and the scales of the losses say."""
    signs: set[Sign] = set()
    ranks, has = len(fitted.step.ranks), balance.term.has_K
    live = balance.coefficients_K[balance.counted_K]
    by = {axis: _sums(balance, axis) for axis in (0, 1)}
    if _unequal(by[0]) or _unequal_within(balance, 1):
        signs.add(Sign.UNEQUAL_COUNTS_ACROSS_RANKS)
    if _unequal(by[1]) or _unequal_within(balance, 0):
        signs.add(Sign.UNEQUAL_COUNTS_ACROSS_MICRO_BATCHES)
    if (balance.term.counts_K[has] == 0).any():
        signs.add(Sign.EMPTY_CONTRIBUTION)
    if (
        balance.term.elements > 0
        and abs(balance.total - 1) > TOTAL
        and abs(balance.total * balance.term.elements / max(balance.unit_count, 1e-300) - 1) < 0.01
        and balance.promise == "mean"
    ):
        signs.add(Sign.IDLE_UNITS_COUNTED)
    if len({batch for _, batch in fitted.step.keys}) < asked.full_window:
        signs.add(Sign.SHORT_WINDOW)
    if len(live) and np.ptp(live) <= 0.01 * np.abs(live).max():
        coefficient, loss_total = float(live.mean()), float(balance.term.totals_K[has].sum())
        found = _coefficient_signs(coefficient, loss_total, ranks)
        if not found and abs(loss_total / balance.unit_count - 1) < 0.01:  # summed losses are divided after backward
            found = _coefficient_signs(coefficient * balance.unit_count, 1.0, ranks)
        signs |= found
    return signs


def _sums(balance: Balance, axis: int) -> list[float]:
    sums: dict[int, float] = defaultdict(float)
    for key, count in zip(balance.keys, balance.term.counts_K.tolist(), strict=True):
        sums[key[axis]] += count
    return list(sums.values())


def _unequal(values: list[float]) -> bool:
    return len(values) > 1 and max(values) - min(values) > 1e-9 * max(values)


def _unequal_within(balance: Balance, fixed: int) -> bool:
    """Counts differ along one axis while the other stays."""
    counts: dict[int, list[float]] = defaultdict(list)
    for key, count in zip(balance.keys, balance.term.counts_K.tolist(), strict=True):
        counts[key[fixed]].append(count)
    return any(_unequal(values) for values in counts.values())


def _coefficient_signs(coefficient: float, loss_total: float, ranks: int) -> set[Sign]:
    named = {Sign.COEFFICIENTS_SUM: 1.0, Sign.COEFFICIENTS_MEAN: 1 / ranks, Sign.COEFFICIENTS_MEAN_TWICE: 1 / ranks**2}
    signs = {sign for sign, value in named.items() if abs(coefficient / value - 1) < 0.01}
    if ranks > 1 and Sign.COEFFICIENTS_MEAN in signs and abs(loss_total / ranks**2 - 1) < 0.01:
        signs.add(Sign.LOSS_TIMES_WORLD)
    if ranks > 1 and Sign.COEFFICIENTS_SUM in signs and abs(loss_total / ranks - 1) < 0.01:
        signs.discard(Sign.LOSS_TIMES_WORLD)
    return signs
