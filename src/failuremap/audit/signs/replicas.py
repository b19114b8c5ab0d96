"""Weights that should be equal on all ranks: in which parameters they differ, and which ranks agree with each other.

Legend: R ranks, P parameters, L numbers of all parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.steps.joining import whole_weights
from failuremap.audit.steps.story import Rank

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.float32]
T = TypeVar("T")

# of a tensor's largest element: what a few roundings in float32 make, as of a sum that is added and taken away again
ROUNDING = 2.0**-21
# groups of ranks that agree are listed up to this many
_MOST_GROUPS = 8


@dataclass(frozen=True)
class Agreement:
    """Which parameters differ between ranks, and which ranks hold the same."""

    differs_P: Mask
    groups: list[list[int]]
    """Ranks that agree in everything, each with the first of its group; [] where there are too many groups to list."""
    by_rounding: bool = False
    """Whether they differ, and no more than a few roundings do."""


def compared(rows_RL: Floats, exact_L: Mask, starts: NDArray[np.int64], ranks: Sequence[int]) -> Agreement:
    """Compares the weights of all ranks.

    Sampled elements are compared bit by bit; sums over a tensor, of which different processors may round the last bit
    otherwise, up to 1e-5.

    Args:
        rows_RL: Each rank's numbers; nan where one is not known.
        exact_L: Which numbers are elements.
        starts: Where each parameter begins, and the end.
        ranks: Whose rows these are.
    """
    differs, by_rounding = np.zeros(len(starts) - 1, dtype=bool), True
    first_L = rows_RL[0]
    for row in rows_RL[1:]:
        differs |= np.add.reduceat(_unlike(row, first_L, exact_L), starts[:-1]) > 0 if len(differs) else differs
        by_rounding = by_rounding and _rounded(row, first_L, exact_L, starts)
        first_L = _either(first_L, row)  # stages hold no parameter of one another
    same = [list(ranks)] if not differs.any() else None
    groups = same or _grouped(ranks, rows_RL, lambda a, b: not _unlike(a, b, exact_L).any(), _either)
    return Agreement(differs, groups, bool(by_rounding and differs.any()))


def _rounded(row: Floats, first: Floats, exact_L: Mask, starts: NDArray[np.int64]) -> bool:
    """Whether elements that differ do so by a few roundings of the largest one of their tensor."""
    if len(starts) < 2:
        return True
    apart = np.where(exact_L, np.abs(np.nan_to_num(row - first)), 0.0)
    largest = np.maximum.reduceat(np.where(exact_L, np.abs(np.nan_to_num(first)), 0.0), starts[:-1])
    sums_alike = not _unlike(row, first, np.zeros_like(exact_L))[~exact_L].any()
    return sums_alike and bool((np.maximum.reduceat(apart, starts[:-1]) <= ROUNDING * largest).all())


def _either(first: Floats, second: Floats) -> Floats:
    """What is known of either, of the first where both are."""
    return np.where(np.isnan(first), second, first)


def _grouped(
    ranks: Sequence[int], held: Iterable[T], agree: Callable[[T, T], bool], both: Callable[[T, T], T]
) -> list[list[int]]:
    """Puts each rank to the first group that holds the same, or nothing else; [] where there are too many to list."""
    leaders: list[T] = []
    groups: list[list[int]] = []
    for rank, own in zip(ranks, held, strict=True):
        place = next((index for index, leader in enumerate(leaders) if agree(own, leader)), len(leaders))
        if place == _MOST_GROUPS:
            return []
        if place == len(leaders):
            leaders.append(own)
            groups.append([])
        leaders[place] = both(leaders[place], own)
        groups[place].append(rank)
    return groups


def _unlike(first: Floats, second: Floats, exact_L: Mask) -> Mask:
    known = ~np.isnan(first) & ~np.isnan(second)
    unlike: Mask = known & np.where(exact_L, first != second, ~np.isclose(first, second, rtol=1e-5, atol=1e-6))
    return unlike


def final_agreement(ranks: Sequence[Rank]) -> tuple[set[str], list[list[int]]]:
    """Names the parameters whose weights differ between ranks at the end of the job, and the ranks that agree."""
    if len(ranks) < 2:
        return set(), []
    held = whole_weights({rank.rank: _final_weights(rank) for rank in ranks}, ranks)
    common = set.intersection(*(set(found) for found in held))
    common |= {p.name for rank in ranks for p in rank.parameters.values() if p.stage is not None}
    by_name = {name: [found[name] for found in held if name in found] for name in common}
    apart = {name for name, found in by_name.items() if any(_apart(other, found[0]) for other in found[1:])}

    def agree(one: dict[str, Numbers], other: dict[str, Numbers]) -> bool:
        return not any(_apart(one[name], other[name]) for name in apart if name in one and name in other)

    return apart, _grouped([rank.rank for rank in ranks], held, agree, lambda one, other: {**other, **one})


def _final_weights(rank: Rank) -> dict[str, NDArray[np.float32]]:
    found, at = {}, 0
    if rank.final_weights is not None:
        for id in rank.final_weights.ids:
            parameter = rank.parameters[id]
            found[parameter.name] = rank.final_weights.numbers[at : at + parameter.rows]
            at += parameter.rows
    return found


def _apart(first: NDArray[np.float32], second: NDArray[np.float32]) -> bool:
    return first.shape != second.shape or not np.allclose(first, second, rtol=1e-5, atol=1e-30, equal_nan=True)
