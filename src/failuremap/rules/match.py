"""Measured weights -> all rules that they equal, and what would tell those rules apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from failuremap.errors import InvalidArgument
from failuremap.rules.known import KNOWN
from failuremap.rules.rule import Contribution, Layout, Rule

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23)
_STANDARD_ERRORS = 5
_MOST_CHANGES = 3


@dataclass(frozen=True)
class Match:
    """A rule that the measured weights equal, and how closely."""

    rule: Rule
    worst_deviation: float
    """Largest |measured - exact|, as a share of the largest |exact| weight of the rule."""


def match(
    measured: Sequence[float],
    errors: Sequence[float],
    layout: Layout,
    rules: Iterable[Rule] | None = None,
    tolerance: float = 0.01,
) -> list[Match]:
    """Finds all rules whose weights the measured ones equal, the simpler ones first.

    Weight k equals the rule's when |measured_k - exact_k| <= tolerance * max |exact| + 5 * errors_k. A weight or an
    error that is not finite equals no rule.

    Args:
        measured: One weight for each contribution's mean gradient, in the layout's order.
        errors: Their standard errors; 0 or more.
        layout: The contributions.
        rules: Rules to try; all known ones where it is not given.
        tolerance: Share of the rule's largest weight.

    Raises:
        InvalidArgument: Lengths differ, or an error or the tolerance is negative.

    Example:
        >>> [found.rule.name for found in match([0.5, 0.5], [0, 0], Layout.from_counts([3, 5]))][0]
        'mean'
    """
    _check(measured, errors, layout, tolerance)
    if not all(map(math.isfinite, (*measured, *errors))):
        return []
    most = _most(measured, errors, tolerance)
    compared = (_compare(rule, measured, errors, layout, tolerance, most) for rule in rules or KNOWN.values())
    return [found for found in compared if found is not None]


def indistinguishable(layout: Layout, rules: Iterable[Rule] | None = None) -> list[set[str]]:
    """Groups the names of rules that give the same weights on this layout; only groups of two and more.

    Example:
        >>> groups = indistinguishable(Layout.from_counts([4, 4]), map(KNOWN.get, ("weighted_mean", "mean", "sum")))
        >>> [sorted(names) for names in groups]
        [['mean', 'weighted_mean']]
    """
    groups: dict[tuple[object, ...], set[str]] = {}
    for rule in rules or KNOWN.values():
        groups.setdefault(rule.coefficients(layout), set()).add(rule.name)
    return [names for names in groups.values() if len(names) > 1]


def what_separates(rule_a: Rule, rule_b: Rule, layout: Layout) -> str:
    """Says the smallest change of the layout at which two rules differ; "" where no change separates them.

    Example:
        >>> what_separates(KNOWN["weighted_mean"], KNOWN["mean"], Layout.from_counts([4, 4]))
        'unequal counts on the ranks'
    """
    if rule_a.coefficients(layout) != rule_b.coefficients(layout):
        return "these counts"
    for change_count in range(1, _MOST_CHANGES + 1):
        for changes in combinations(_changes(layout), change_count):
            changed = layout
            for _, change in reversed(changes):  # first the shape, then the counts: copied ranks differ then, too
                changed = change(changed)
            if rule_a.coefficients(changed) != rule_b.coefficients(changed):
                return " and ".join(phrase for phrase, _ in reversed(changes))
    return ""


def _check(measured: Sequence[float], errors: Sequence[float], layout: Layout, tolerance: float) -> None:
    expected = len(layout.contributions)
    for name, values in (("measured", measured), ("errors", errors)):
        if len(values) != expected:
            raise InvalidArgument(
                f"len({name})={len(values)} but the layout has {expected} contributions; give one for each."
            )
    for index, error in enumerate(errors):
        if error < 0:
            raise InvalidArgument(f"errors[{index}]={error} is negative; a standard error is 0 or more.")
    if not tolerance >= 0:
        raise InvalidArgument(f"tolerance={tolerance} is not 0 or more; it is a share of the largest weight.")


def _compare(
    rule: Rule, measured: Sequence[float], errors: Sequence[float], layout: Layout, tolerance: float, most: float
) -> Match | None:
    """Compares weight by weight; `most` bounds the largest of a rule that fits."""
    exact: list[float] = []
    for weight, seen, error in zip(rule.one_by_one(layout), measured, errors, strict=True):
        if abs(seen - float(weight)) > tolerance * most + _STANDARD_ERRORS * error:
            return None
        exact.append(float(weight))
    largest = max(map(abs, exact), default=0.0)
    deviations = [abs(seen - right) for seen, right in zip(measured, exact, strict=True)]
    bounds = [tolerance * largest + _STANDARD_ERRORS * error for error in errors]
    if any(deviation > bound for deviation, bound in zip(deviations, bounds, strict=True)):
        return None
    return Match(rule, max(deviations, default=0.0) / largest if largest else 0.0)


def _most(measured: Sequence[float], errors: Sequence[float], tolerance: float) -> float:
    """What the largest weight of a rule that fits can be: it is no further from its measured one than any other.

    With m the largest of |measured| + 5 errors and w the largest weight: w <= m + tolerance w.
    """
    reach = max(
        (abs(seen) + _STANDARD_ERRORS * error for seen, error in zip(measured, errors, strict=True)), default=0.0
    )
    return reach / (1 - tolerance) if tolerance < 1 else math.inf


def _changes(layout: Layout) -> Iterator[tuple[str, Callable[[Layout], Layout]]]:
    """Yields what could be different in another run of the same job: words, and the change itself."""
    ranks, window = layout.rank_count, layout.micro_batch_count
    yield "unequal counts on the ranks", _unequal_on_ranks
    yield "unequal counts in the micro-batches", _unequal_in_micro_batches
    if window == 1:
        yield "more than one micro-batch in a window", _more_micro_batches
    elif window == ranks:
        yield "another number of micro-batches than ranks", _more_micro_batches
    else:
        yield "another number of micro-batches", _more_micro_batches
    yield "more than one rank" if ranks == 1 else "another number of ranks", _more_ranks
    yield "a window shorter than the others", lambda a: replace(a, full_window=a.micro_batch_count + 1)
    yield "the update of another rank", lambda a: a.seen_by(next((r for r in a.ranks if r != a.observer), a.observer))


def _unequal_on_ranks(layout: Layout) -> Layout:
    return _recounted(layout, lambda part: _PRIMES[layout.ranks.index(part.rank) % len(_PRIMES)])


def _unequal_in_micro_batches(layout: Layout) -> Layout:
    return _recounted(layout, lambda part: _PRIMES[-1 - layout.micro_batches.index(part.micro_batch) % len(_PRIMES)])


def _recounted(layout: Layout, factor: Callable[[Contribution], int]) -> Layout:
    parts = (replace(part, count=(part.count or 1) * factor(part)) for part in layout.contributions)
    return replace(layout, contributions=tuple(parts))


def _more_micro_batches(layout: Layout) -> Layout:
    """Repeats the last micro-batch, until there are others than ranks; a full window stays full."""
    last = max(layout.micro_batches, default=0)
    repeats = 2 if layout.micro_batch_count + 1 == layout.rank_count else 1
    copied = [part for part in layout.contributions if part.micro_batch == last]
    more = tuple(replace(part, micro_batch=last + step) for step in range(1, repeats + 1) for part in copied)
    full = None if layout.full_window is None else layout.full_window + repeats
    return replace(layout, contributions=layout.contributions + more, full_window=full)


def _more_ranks(layout: Layout) -> Layout:
    """Repeats the last rank, until there are others than micro-batches."""
    last = max(layout.ranks, default=0)
    repeats = 2 if layout.rank_count + 1 == layout.micro_batch_count else 1
    copied = [part for part in layout.contributions if part.rank == last]
    more = tuple(replace(part, rank=last + step) for step in range(1, repeats + 1) for part in copied)
    return replace(layout, contributions=layout.contributions + more)
