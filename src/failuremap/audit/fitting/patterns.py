"""Which contributions are in an update: the shape of the coefficients, in the words of the catalogue's signs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.steps.windows import Key
from failuremap.catalogue.signs import Sign

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# a coefficient below this part of the largest is none at all
_NOTHING = 1e-3


@dataclass(frozen=True)
class Presence:
    """Which contributions an update holds, as far as can be told, and which it certainly does not."""

    live: Mask
    gone: Mask


def presence(coefficients: Floats, errors: Floats, nonzero: Mask) -> Presence:
    """Sorts contributions by their coefficients; one without any gradient is neither live nor gone."""
    largest = float(np.abs(coefficients).max(initial=0.0))
    sure = errors < 0.05 * max(largest, 1e-300)
    gone = (np.abs(coefficients) <= np.maximum(_NOTHING * largest, 0)) & sure & nonzero
    return Presence(nonzero & ~gone, gone)


def own_only(found: Presence, keys: Sequence[Key], observer: int) -> bool:
    """The update holds contributions of its own rank and none of another."""
    own = np.array([rank == observer for rank, _ in keys])
    return bool(
        (found.live & own).any() and found.gone[~own & (found.live | found.gone)].all() and found.gone[~own].any()
    )


def group_only(found: Presence, keys: Sequence[Key], group: Sequence[int]) -> bool:
    """The update holds all contributions of these ranks, and none of another."""
    own = np.array([rank in group for rank, _ in keys])
    return not (found.gone[own].any() or found.live[~own].any()) and bool(found.gone[~own].any())


def unsynchronised_tail(found: Presence, keys: Sequence[Key], observer: int) -> bool:
    """Early micro-batches are there from all ranks, later ones from the own rank alone."""
    others_gone = {
        micro_batch for (rank, micro_batch), gone in zip(keys, found.gone, strict=True) if gone and rank != observer
    }
    others_live = {
        micro_batch for (rank, micro_batch), live in zip(keys, found.live, strict=True) if live and rank != observer
    }
    own_live = {
        micro_batch for (rank, micro_batch), live in zip(keys, found.live, strict=True) if live and rank == observer
    }
    return bool(others_gone and others_live and not others_gone & others_live) and others_gone <= own_live


def missing(found: Presence, keys: Sequence[Key]) -> tuple[set[Sign], list[int]]:
    """What no update holds, and the numbers of these ranks or micro-batches; (set(), []) where nothing is missing."""
    ranks = sorted({rank for rank, _ in keys})
    batches = sorted({micro_batch for _, micro_batch in keys})
    gone_ranks = _all_gone(found, [rank for rank, _ in keys])
    if gone_ranks:
        return (
            {Sign.RANK_MISSING, Sign.FIRST_RANK_ONLY} if gone_ranks == ranks[1:] else {Sign.RANK_MISSING}
        ), gone_ranks
    gone = _all_gone(found, [micro_batch for _, micro_batch in keys])
    if gone and gone == batches[:-1]:
        return {Sign.LAST_MICRO_BATCH_ONLY}, gone
    if gone and gone == batches[1:]:
        return {Sign.FIRST_MICRO_BATCH_ONLY}, gone
    return ({Sign.MICRO_BATCH_MISSING}, gone) if gone else (set(), [])


def all_gone(found: Presence, keys: Sequence[Key], axis: int, value: int) -> bool:
    """Nothing of one rank (axis 0) or of one micro-batch (axis 1) is in the update."""
    return value in _all_gone(found, [key[axis] for key in keys])


def _all_gone(found: Presence, values: Sequence[int]) -> list[int]:
    """The ranks, or the micro-batches, that one value for each contribution names and of which nothing is left."""
    some = {value for value, gone in zip(values, found.gone, strict=True) if gone}
    return sorted(some - {value for value, live in zip(values, found.live, strict=True) if live})
