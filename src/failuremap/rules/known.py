"""The rules that a job may promise, and those that jobs are known to follow instead.

Letters: K contributions, R ranks, M micro-batches of the window, G micro-batches of a full window, n units behind
a contribution, N units in all, N_r units of its rank in the window, N_m units of its micro-batch over the ranks.
A weight is that of the contribution's *mean* gradient. A contribution without units weighs nothing in a rule with
n in its formula, also where its denominator is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from failuremap.errors import InvalidArgument
from failuremap.rules.rule import Contribution, Layout, Rule


class _Term(NamedTuple):
    """One contribution, with what a formula may need of it."""

    layout: Layout
    part: Contribution
    n: Fraction


def _rule(name: str, title: str, formula: str, weight: Callable[[_Term], Fraction]) -> Rule:
    """Makes a rule of the weight of one contribution."""

    def weights(layout: Layout) -> Iterator[Fraction]:
        return (weight(_Term(layout, part, n)) for part, n in zip(layout.contributions, layout.counts, strict=True))

    return Rule(name, title, formula, lambda layout: tuple(weights(layout)), weights)


def _ratio(numerator: Fraction | int, denominator: Fraction | int) -> Fraction:
    return Fraction(numerator) / denominator if numerator else Fraction(0)


def _only(chosen: bool, size: int) -> Fraction:
    return Fraction(1, size) if chosen else Fraction(0)


weighted_mean = _rule("weighted_mean", "mean over all {unit}s", "n/N", lambda t: _ratio(t.n, t.layout.total_count))
unit_sum = _rule("unit_sum", "sum over all {unit}s", "n", lambda t: t.n)
mean = _rule("mean", "mean of all contributions' means", "1/K", lambda t: Fraction(1, len(t.layout.contributions)))
sum_of_means = _rule("sum", "sum of all contributions' means", "1", lambda _: Fraction(1))

mean_over_ranks_sum_over_window = _rule(
    "mean_over_ranks_sum_over_window",
    "mean over the ranks of the sum over the window",
    "1/R",
    lambda t: Fraction(1, t.layout.rank_count),
)
sum_over_ranks_mean_over_window = _rule(
    "sum_over_ranks_mean_over_window",
    "sum over the ranks of the mean over the window",
    "1/M",
    lambda t: Fraction(1, t.layout.micro_batch_count),
)
rank_means_of_window_weighted = _rule(
    "rank_means_of_window_weighted",
    "mean of the ranks' means, each over its {unit}s of the window",
    "n/(R N_r)",
    lambda t: _ratio(t.n, t.layout.rank_count * t.layout.rank_total(t.part.rank)),
)
window_means_of_rank_weighted = _rule(
    "window_means_of_rank_weighted",
    "mean of the micro-batches' means, each over its {unit}s on all ranks",
    "n/(M N_m)",
    lambda t: _ratio(t.n, t.layout.micro_batch_count * t.layout.micro_batch_total(t.part.micro_batch)),
)
sum_of_rank_weighted_windows = _rule(
    "sum_of_rank_weighted_windows",
    "sum of the ranks' means, each over its {unit}s of the window",
    "n/N_r",
    lambda t: _ratio(t.n, t.layout.rank_total(t.part.rank)),
)
sum_of_globally_weighted_micro_batches = _rule(
    "sum_of_globally_weighted_micro_batches",
    "sum of the micro-batches' means, each over its {unit}s on all ranks",
    "n/N_m",
    lambda t: _ratio(t.n, t.layout.micro_batch_total(t.part.micro_batch)),
)

first_micro_batch = _rule(
    "first_micro_batch",
    "mean over the ranks of the first micro-batch alone",
    "1/R in the first micro-batch, else 0",
    lambda t: _only(
        t.part.micro_batch == t.layout.micro_batches[0], t.layout.micro_batch_size(t.layout.micro_batches[0])
    ),
)
last_micro_batch = _rule(
    "last_micro_batch",
    "mean over the ranks of the last micro-batch alone",
    "1/R in the last micro-batch, else 0",
    lambda t: _only(
        t.part.micro_batch == t.layout.micro_batches[-1], t.layout.micro_batch_size(t.layout.micro_batches[-1])
    ),
)
first_rank = _rule(
    "first_rank",
    "the first rank's contributions alone, mean over its window",
    "1/M on the first rank, else 0",
    lambda t: _only(t.part.rank == t.layout.ranks[0], t.layout.rank_size(t.layout.ranks[0])),
)
own_rank = _rule(
    "own_rank",
    "each rank's own contributions alone, mean over its window",
    "1/M on the rank itself, else 0",
    lambda t: _only(t.part.rank == t.layout.observer, t.layout.rank_size(t.layout.observer)),
)
own_rank_weighted = _rule(
    "own_rank_weighted",
    "each rank's own contributions alone, mean over its {unit}s",
    "n/N_r on the rank itself, else 0",
    lambda t: _ratio(t.n, t.layout.rank_total(t.part.rank)) if t.part.rank == t.layout.observer else Fraction(0),
)

count_weighted_over_ranks = _rule(
    "count_weighted_over_ranks",
    "sum over all {unit}s, divided by the number of ranks",
    "n/R",
    lambda t: t.n / t.layout.rank_count,
)
counts_twice = _rule(
    "counts_twice",
    "sum over all {unit}s, each contribution times its share of them",
    "n^2/N",
    lambda t: _ratio(t.n**2, t.layout.total_count),
)
rank_counts_twice = _rule(
    "rank_counts_twice",
    "sum over all {unit}s, each rank's window times its share of them",
    "n N_r/N",
    lambda t: _ratio(t.n * t.layout.rank_total(t.part.rank), t.layout.total_count),
)
counts_twice_over_mean_count = _rule(
    "counts_twice_over_mean_count",
    "sum over all {unit}s, each contribution times its share of them, divided by the mean count",
    "K n^2/N^2",
    lambda t: _ratio(len(t.layout.contributions) * t.n**2, t.layout.total_count**2),
)
mean_over_full_window = _rule(
    "mean_over_full_window",
    "mean over the ranks, the window divided by the length of a full one",
    "1/(R G)",
    lambda t: Fraction(1, t.layout.rank_count * t.layout.full_window_count),
)
weighted_mean_over_full_window = _rule(
    "weighted_mean_over_full_window",
    "mean over all {unit}s, times the length of the window over that of a full one",
    "M/G * n/N",
    lambda t: _ratio(t.n * t.layout.micro_batch_count, t.layout.total_count * t.layout.full_window_count),
)

reduced_again = _rule(
    "reduced_again",
    "sum of all contributions' means, summed over the ranks again after each later micro-batch",
    "R^(micro-batches after k)",
    lambda t: Fraction(t.layout.rank_count) ** sum(later > t.part.micro_batch for later in t.layout.micro_batches),
)
weighted_reduced_again = _rule(
    "weighted_reduced_again",
    "mean over all {unit}s, summed over the ranks again after each later micro-batch",
    "n/N R^(micro-batches after k)",
    lambda t: _ratio(
        t.n * t.layout.rank_count ** sum(later > t.part.micro_batch for later in t.layout.micro_batches),
        t.layout.total_count,
    ),
)

_FACTORS: dict[str, tuple[str, str, Callable[[Layout], int]]] = {
    "ranks": ("the number of ranks", "R", lambda a: a.rank_count),
    "window": ("the micro-batches of the window", "M", lambda a: a.micro_batch_count),
    "ranks_and_window": ("the ranks and the micro-batches", "R M", lambda a: a.rank_count * a.micro_batch_count),
    "ranks_twice": ("the number of ranks twice", "R^2", lambda a: a.rank_count**2),
    "window_twice": ("the micro-batches of the window twice", "M^2", lambda a: a.micro_batch_count**2),
}
# 1/M, 1/R, 1, n/N_r and n/N_m: rules that stand above under names of their own.
_NAMED_ABOVE = {
    "mean_times_ranks",
    "mean_times_window",
    "mean_times_ranks_and_window",
    "rank_means_of_window_weighted_times_ranks",
    "window_means_of_rank_weighted_times_window",
}
_SCALED_BASES = (weighted_mean, mean, rank_means_of_window_weighted, window_means_of_rank_weighted)


def _scaled(rule: Rule, factor_name: str, *, times: bool) -> Rule:
    """Makes the rule that multiplies (or divides) all of a rule's weights by one factor of the layout."""
    words, letters, factor = _FACTORS[factor_name]

    def weights(layout: Layout) -> Iterator[Fraction]:
        scale = factor(layout)
        return (weight * scale if times else weight / scale for weight in rule.one_by_one(layout))

    name = f"{rule.name}_{'times' if times else 'over'}_{factor_name}"
    title = f"{rule.title}, {'times' if times else 'divided by'} {words}"
    formula = f"{letters} * {rule.formula}" if times else f"{rule.formula} / ({letters})"
    return Rule(name, title, formula, lambda layout: tuple(weights(layout)), weights)


SCALED: dict[str, Rule] = {
    rule.name: rule
    for base in _SCALED_BASES
    for factor_name in _FACTORS
    for rule in (_scaled(base, factor_name, times=True), _scaled(base, factor_name, times=False))
    if rule.name not in _NAMED_ABOVE
} | {
    rule.name: rule
    for rule in (
        *(_scaled(reduced_again, name, times=False) for name in ("ranks", "window", "ranks_and_window")),
        *(_scaled(rule, "ranks", times=False) for rule in (counts_twice, rank_counts_twice)),
    )
}
KNOWN: dict[str, Rule] = {rule.name: rule for rule in list(vars().values()) if isinstance(rule, Rule)} | SCALED


def without_rank(rule: Rule, rank: int, *, renormalised: bool = False) -> Rule:
    """Makes the rule that a job follows when one rank's contributions never arrive.

    The other weights stay as they were; with `renormalised` the rule is applied to those that are left.

    Example:
        >>> without_rank(mean, 1).coefficients(Layout.from_counts([3, 5]))
        (Fraction(1, 2), Fraction(0, 1))
    """

    def coefficients(layout: Layout) -> tuple[Fraction, ...]:
        left = tuple(part for part in layout.contributions if part.rank != rank)
        judged = replace(layout, contributions=left) if renormalised else layout
        weights = dict(zip(judged.contributions, rule.coefficients(judged), strict=True))
        return tuple(weights[part] if part.rank != rank else Fraction(0) for part in layout.contributions)

    how = " of those that are left" if renormalised else ""
    suffix = "_renormalised" if renormalised else ""
    formula = f"{rule.formula}{how}, 0 on rank {rank}"
    return Rule(
        f"{rule.name}_without_rank_{rank}{suffix}", f"{rule.title}{how}, without rank {rank}", formula, coefficients
    )


def known_rule(name: str) -> Rule:
    """Returns the known rule of this name.

    Raises:
        InvalidArgument: No known rule has the name.
    """
    if name not in KNOWN:
        raise InvalidArgument(f"rule={name!r} is not known; expected one of: {', '.join(KNOWN)}.")
    return KNOWN[name]
