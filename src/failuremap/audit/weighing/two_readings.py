"""Losses of one function at several lines are micro-batches of one loss, or terms of their own: which to believe.

read as one loss   read as terms                   believed
right                                              one loss
not right          each a mean                     terms; with a note where their passes have the same scale
not right          right, but for factors          terms, where their passes have scales of their own
                                                   one loss, where these are the same and one line is passed more often
                                                   neither, where the lines are passed equally often: cannot tell
not right          not right                       one loss

Where one line is passed under no_sync and the other ends it, they are micro-batches of one loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.faults import Judged
from failuremap.audit.sentences import loss_words
from failuremap.audit.steps.windows import Key
from failuremap.audit.weighing.balance import TOTAL
from failuremap.audit.weighing.weigh import Term

Floats = NDArray[np.float64]


def together(terms: Sequence[Term]) -> list[Term]:
    """The terms, those of one function over the same units as one, as of mixed labels; [] where there are none such."""
    groups: dict[str, list[Term]] = {}
    for term in terms:
        groups.setdefault(term.function, []).append(term)
    found = [term for group in groups.values() for term in (_one(group) if _share_units(group) else group)]
    return found if len(found) < len(terms) else []


def _share_units(terms: Sequence[Term]) -> bool:
    """Whether contributions that hold several of these terms hold as many units of each, and some do."""
    has_TK, counts_TK = np.array([term.has_K for term in terms]), np.array([term.counts_K for term in terms])
    most_K, least_K = counts_TK.max(axis=0), np.where(has_TK, counts_TK, np.inf).min(axis=0)
    several_K = has_TK.sum(axis=0) > 1
    return bool(several_K.any() and (most_K == least_K)[several_K].all())


def _one(terms: Sequence[Term]) -> list[Term]:
    return [
        replace(
            terms[0],
            name=" and ".join(term.name for term in terms),
            joined=len(terms),
            has_K=np.any([term.has_K for term in terms], axis=0),
            counts_K=np.max([term.counts_K for term in terms], axis=0),
            totals_K=np.sum([term.totals_K for term in terms], axis=0),
            spread=max(term.spread for term in terms),
            total_known=all(term.total_known for term in terms),
            apart=any(term.apart for term in terms),
        )
    ]


def prefers(joint: Judged, terms: Sequence[Term], found: Judged) -> bool:
    """Whether terms over the same units are believed to be one.

    They are where they are a mean together, also one that something behind the loss multiplies, or where what is uneven
    in them has a name together, and none in each or a mean in each pass.

    Args:
        joint: What is said of them as one.
        terms: The terms, these as one.
        found: What is said of each.
    """
    if not _is_open(joint):
        return all(abs(total - 1) <= TOTAL for total in joint.totals.values()) and joint.factor is None
    if not found.faults:
        return bool(joint.faults) and any(_is_mean(term) for term in terms if term.joined)
    named = any(fault.followed for fault in found.faults if fault.kind == "weights")
    parts_of_one = any(_is_mean(term) for term in terms if term.joined)
    return (parts_of_one or not named) and any(fault.followed for fault in joint.faults)


def _is_mean(term: Term) -> bool:
    return bool((np.abs(term.totals_K[term.has_K & (term.counts_K > 0)] - 1) <= TOTAL).all())


def may_be_summed(found: Judged, terms: Sequence[Term], ranks: int, coefficients: Floats) -> bool:
    """Whether R terms of the same units, each of them a mean over ranks that are added up, may be the R-th part of one.

    Loss terms that are halved to be averaged, on two ranks that are summed, look like terms that each rank halves to
    undo the sum.

    Args:
        found: What is said of them as one.
        terms: The terms, these as one.
        ranks: R.
        coefficients: Of all contributions.
    """
    joined = [term for term in terms if term.joined == ranks and _is_mean(term)]
    return bool(found.faults and joined and (np.abs(coefficients - 1) <= TOTAL).all())


def believed(
    tries: Sequence[Judged], ways: Sequence[list[Term]], keys: Sequence[Key], synchronising_K: Sequence[bool | None]
) -> Judged:
    """The reading of a step's losses that the verdict follows.

    Args:
        tries: What each way to sort them into terms says; the first reads them as one loss.
        ways: The terms of each.
        keys: Rank and micro-batch of each contribution.
        synchronising_K: Whether a wrapper adds the ranks up in it; None without a wrapper.
    """
    one, *others = tries
    if not _is_open(one) or not others or _is_open(others[0]):
        return one
    terms = others[0]
    parts = _parts(ways[0], ways[1])
    if not one.faults or not _scaled_alike(parts, keys):
        return terms
    if _are_told_by_no_sync(parts, synchronising_K):
        return one
    names, fault = sorted(part.name for part in parts), one.faults[0]
    if all(abs(total - 1) <= TOTAL for total in terms.totals.values()):
        terms.notes.append(loss_words.taken_for_terms(names, fault.sentence))
        return terms
    if len({int(part.has_K.sum()) for part in parts}) > 1:
        return one
    terms.factor = None
    terms.unexplained.append(loss_words.one_or_several(names, uneven=fault.kind == "weights"))
    return terms


def _are_told_by_no_sync(parts: Sequence[Term], synchronising_K: Sequence[bool | None]) -> bool:
    """Whether the lines are those under no_sync and those that end it: micro-batches of one window."""
    modes = [{synchronising_K[int(k)] for k in np.flatnonzero(part.has_K)} for part in parts]
    return all(len(mode) == 1 for mode in modes) and {True, False} == set[bool | None]().union(*modes)


def _is_open(found: Judged) -> bool:
    return bool(found.faults or found.doubts or found.unexplained)


def _parts(merged: Sequence[Term], apart: Sequence[Term]) -> list[Term]:
    """The terms that are one with another in the first way."""
    known = {(term.name, term.has_K.tobytes()) for term in merged}
    return [term for term in apart if (term.name, term.has_K.tobytes()) not in known]


def _scaled_alike(parts: Sequence[Term], keys: Sequence[Key]) -> bool:
    """Whether on each rank the passes of all these terms, or all their units, have one scale."""
    ranks = np.array([rank for rank, _ in keys])

    def alike(values: Sequence[Floats]) -> bool:
        by_rank = [np.concatenate([row[part.has_K & (ranks == rank)] for row, part in zip(values, parts, strict=True)])
                   for rank in set(ranks.tolist())]  # fmt: skip
        return all(bool(np.ptp(one) <= TOTAL * np.abs(one).max()) for one in by_rank if len(one))

    return len(parts) > 1 and (alike([p.totals_K for p in parts]) or alike([p.unit_weights_K for p in parts]))
