"""Evidence -> the mechanisms that leave exactly it; several where the evidence is the same."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from failuremap.catalogue.mechanism import Mechanism
from failuremap.catalogue.shelf import mechanisms
from failuremap.catalogue.signs import Sign

Promise = Literal["mean", "sum"]

_PROMISED = {"mean": "weighted_mean", "sum": "unit_sum"}
_SUMS = {"sum", "unit_sum"}
# "sum" has no scaled forms; these are its own over the window, and over the ranks.
_SUM_OVER = {"window": "sum_over_ranks_mean_over_window", "ranks": "mean_over_ranks_sum_over_window"}


@dataclass(frozen=True)
class _Candidate:
    """A mechanism that fits, by which of its rules and by which of its alternatives of signs."""

    mechanism: Mechanism
    rules: frozenset[str]
    signs: frozenset[Sign]

    def says_less_than(self, other: _Candidate) -> bool:
        """True where another explains the same rules and needs all of these signs and more."""
        return self.signs < other.signs and self.rules <= other.rules


def recognise(
    followed_rules: Collection[str], signs: Collection[Sign], *, promise: Promise = "mean"
) -> list[Mechanism]:
    """Finds all mechanisms that leave this evidence, in the order of their slugs.

    A mechanism fits where one of its rules is among those followed (or its signs name it alone), all signs of one of
    its alternatives were seen, and none that excludes it. Of two that explain the same rules, the one whose signs
    are among the other's is left out. A rule accuses nobody where it equals the promised one.

    Args:
        followed_rules: Names of all known rules that the measured weights equal; may be empty.
        signs: What else was seen.
        promise: What the job promises: the mean, or the sum, over all units.

    Example:
        >>> [found.slug for found in recognise({"mean"}, {Sign.UNEQUAL_COUNTS_ACROSS_RANKS})]
        ['replica-means-ignore-counts']
    """
    followed = frozenset(followed_rules)
    seen = frozenset(signs) | _implied(followed)
    fitting = [_fit(entry, followed, seen, promise) for entry in mechanisms().values()]
    candidates = [candidate for candidate in fitting if candidate is not None]
    return [
        candidate.mechanism
        for candidate in candidates
        if not any(candidate.says_less_than(other) for other in candidates)
    ]


def _fit(entry: Mechanism, followed: frozenset[str], seen: frozenset[Sign], promise: Promise) -> _Candidate | None:
    rules = _accusing(entry, followed, promise)
    if not (rules or entry.by_signs_alone) or entry.never & seen:
        return None
    met = [alternative for alternative in entry.signs if alternative <= seen]
    return _Candidate(entry, rules, max(met, key=len)) if met else None


def _accusing(entry: Mechanism, followed: frozenset[str], promise: Promise) -> frozenset[str]:
    """Returns the rules by which a mechanism fits: none where the promise is kept, or is another than its own."""
    kept = _PROMISED[promise] in followed
    same_promise = (entry.promised in _SUMS) == (promise == "sum")
    if kept or not same_promise or entry.by_signs_alone:
        return frozenset()
    return followed.intersection(entry.followed)


def _implied(followed: frozenset[str]) -> frozenset[Sign]:
    """Returns what the followed rules prove: one that fits both as it is and divided by M says that M is 1."""
    proved = {
        Sign.SINGLE_MICRO_BATCH: _fits_divided(followed, "window"),
        Sign.SINGLE_RANK: _fits_divided(followed, "ranks"),
    }
    return frozenset(sign for sign, holds in proved.items() if holds)


def _fits_divided(followed: frozenset[str], divisor: str) -> bool:
    divided = {name.removesuffix(f"_over_{divisor}") for name in followed if name.endswith(f"_over_{divisor}")}
    return bool(divided & followed) or {"sum", _SUM_OVER[divisor]} <= followed
