"""`check_backend`: holds a way to combine gradients to the laws of aggregation, and says which it breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from failuremap.aggregate.checks import RULES, checked_rule
from failuremap.aggregate.exact_formats import FORMATS
from failuremap.aggregate.laws import LAWS, Case, Law
from failuremap.aggregate.trial import Combine, Trial
from failuremap.errors import InvalidArgument, LawBroken


@dataclass(frozen=True)
class Conformance:
    """What a backend was held to, and kept.

    Attributes:
        case_counts: Law -> how many cases of it were checked.
        unchecked: Laws of which no case could be.
    """

    case_counts: dict[str, int]
    unchecked: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{name:17} {count:4} cases" for name, count in self.case_counts.items()]
        return "\n".join([*lines, *(f"{name:17} not checked" for name in self.unchecked)])


def check_backend(
    combine: Combine,
    *,
    rules: Sequence[str] = RULES,
    dtypes: Sequence[str] = ("float32", "float64"),
    contribution_counts: Sequence[int] = (0, 1, 2, 3, 4),
    exact: bool = False,
) -> Conformance:
    """Holds a backend to the laws of aggregation: order, split, scale, zero counts, shapes, and the exact definition.

    All cases are run, always in the same order, so `combine` may call collectives: run the check on every rank and let
    each contribute `contributions[rank]`.

    Args:
        combine: Called with K NumPy arrays of one shape and dtype, a list of K counts for the rule `weighted_mean`
            (else None), and the rule. Returns an array of that shape and dtype; None where there is no update.
        rules: Those that the backend has.
        dtypes: Among float16, bfloat16, float32, float64. Numbers of bfloat16 come in arrays of float32.
        contribution_counts: The numbers K that the backend can combine, such as only that of its ranks.
        exact: Whether results must be the exact ones, rounded once; otherwise they may differ by the roundings of K + 2
            operations, in float32 for the two dtypes of 16 bits.

    Returns:
        How many cases of each law were checked.

    Raises:
        LawBroken: Says each broken law, with its smallest counterexample of those tried.
        InvalidArgument: An unknown rule or dtype.

    Example:
        >>> import numpy as np
        >>> def mean(contributions, counts, rule):
        ...     return np.mean(contributions, axis=0) if contributions else None
        >>> print(check_backend(mean, rules=["mean"], dtypes=["float64"]))
        definition          22 cases
        one contribution     3 cases
        order               38 cases
        split                9 cases
        scale               22 cases
        nothing counted      1 cases
        shape                8 cases
        precision            6 cases
        unequal counts    not checked
        zero count        not checked
    """
    for rule in rules:
        checked_rule(rule)
    for dtype in dtypes:
        if dtype not in FORMATS:
            raise InvalidArgument(f"dtypes: {dtype!r} is not known; expected some of: {', '.join(FORMATS)}.")
    if not rules or not dtypes or not contribution_counts:
        raise InvalidArgument(
            f"rules={rules!r}, dtypes={dtypes!r}, contribution_counts={contribution_counts!r}: nothing to check; give "
            "one of each, or more."
        )
    counts: dict[str, int] = {}
    broken = []
    for law in LAWS:
        trials = [
            Trial(combine, case, FORMATS[dtype], exact)
            for dtype in dtypes
            for case in _cases(law, rules, contribution_counts)
        ]
        failures = [failure for failure in [trial.failure() for trial in trials] if failure]
        if trials:
            counts[law.name] = len(trials)
        if failures:
            broken.append(f"{law.name}: {law.statement}.\n{failures[0]}")
    if broken:
        raise LawBroken(f"{len(broken)} of {len(counts)} laws are broken.\n\n" + "\n\n".join(broken))
    return Conformance(counts, tuple(law.name for law in LAWS if law.name not in counts))


def _cases(law: Law, rules: Sequence[str], contribution_counts: Sequence[int]) -> Iterator[Case]:
    for count in sorted(contribution_counts):
        for rule in rules:
            for case in law.cases(rule, count):
                if case.like is None or len(case.like.vectors) in contribution_counts:
                    yield case
