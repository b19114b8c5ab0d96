"""What several ranks hold together of one step: shards of updates and weights put together, from sketches alone.

Sketches of disjoint shards, and of the terms of a sum, add up to that of the whole: the job gathers nothing for it.

Legend: R ranks, P parameters, L numbers of all their sketches one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.sentences import shard_words
from failuremap.audit.steps.layouts import Layout
from failuremap.audit.steps.models import one_rank_a_model
from failuremap.audit.steps.story import Parameter, Part, Rank

if TYPE_CHECKING:
    from failuremap.audit.steps.windows import Step

Floats = NDArray[np.float64]
Numbers = NDArray[np.float32]


@dataclass(frozen=True)
class Shard:
    """One rank's part of one parameter's update."""

    rank: int
    parameter: int
    columns: NDArray[np.int64]
    """The sampled elements that it holds, among the numbers of all parameters."""
    span: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Sharding:
    """What is known of a step beyond what its ranks hold together."""

    ranks: list[int]
    updates_RL: Floats
    """What each rank steps on itself: zero where it holds nothing."""
    shards: list[Shard]
    own_parts: dict[str, float] = field(default_factory=dict)
    """Parameters of which each rank of a model steps on its own part of the gradient, with the factor."""
    reasons: list[str] = field(default_factory=list)
    """Why something could not be put together."""
    group_sizes: set[int] = field(default_factory=set)
    """Numbers of ranks that hold an update together, or run one model: a reduction may divide by them."""


def joined(step: Step, ranks: Sequence[Rank]) -> Step:
    """Puts the updates of a step together, and the contributions of ranks that run one model; the step as it is if
    nothing in it is distributed.
    """
    names = {parameter.name for parameter in step.parameters}
    if not any(name in names for rank in ranks for _, name in rank.layouts):
        return step
    whole = whole_rows(step.updates_RL, ranks, step.parameters, step.starts, "update")
    present, torn = _present(step, ranks)
    sizes = {len(layout.parts) for rank in ranks for layout in rank.layouts.values()}
    sharding = Sharding(list(step.ranks), step.updates_RL, _shards(step, ranks), reasons=torn, group_sizes=sizes)
    step = replace(step, updates_RL=whole, present_RP=present, sharding=sharding)
    return one_rank_a_model(step, ranks)


def whole_rows(
    rows_RL: Floats, ranks: Sequence[Rank], parameters: Sequence[Parameter], starts: NDArray[np.int64], of: str
) -> Floats:
    """Each rank's numbers with the parts of the other ranks added, where several hold a parameter together."""
    places = {rank.rank: row for row, rank in enumerate(ranks)}
    groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for p, parameter in enumerate(parameters):
        by_parts: dict[tuple[int, ...], list[int]] = {}
        for row, rank in enumerate(ranks):
            layout = rank.layouts.get((of, parameter.name))
            if layout is not None and len(layout.parts) > 1:
                by_parts.setdefault(layout.parts, []).append(row)
        for parts, members in by_parts.items():
            groups.setdefault((parts, tuple(members)), []).append(p)
    joined_RL = rows_RL.copy()
    for (parts, rows_of), chosen in groups.items():
        columns = np.concatenate([np.arange(starts[p], starts[p + 1]) for p in chosen])
        there = np.array([places[rank] for rank in parts if rank in places])
        joined_RL[np.ix_(np.array(rows_of), columns)] = rows_RL[np.ix_(there, columns)].sum(axis=0)
    return joined_RL


def whole_weights(held: dict[int, dict[str, Numbers]], ranks: Sequence[Rank]) -> list[dict[str, Numbers]]:
    """The weights of each rank by name, shards put together; without those of which a shard is missing."""
    found: list[dict[str, Numbers]] = []
    for rank in ranks:
        whole: dict[str, Numbers] = {}
        for name in held[rank.rank]:
            parts = [held.get(part, {}).get(name) for part in _parts(rank, name)]
            there = [part for part in parts if part is not None]
            if len(there) == len(parts):
                whole[name] = np.array(there).sum(axis=0)
        found.append(whole)
    return found


def _parts(rank: Rank, name: str) -> tuple[int, ...]:
    layout = rank.layouts.get(("weights", name))
    return (rank.rank,) if layout is None else layout.parts


def whole_length(parts: dict[int, Part], rank: int) -> float | None:
    """The length of the whole update that a rank steps on; None where it is not known."""
    square = 0.0
    for together, length in parts[rank].norms or ():
        if not together:
            square += length**2
    for together in {together for together, _ in parts[rank].norms or () if together}:
        for other in together:
            norms = parts[other].norms if other in parts else None
            if norms is None:
                return None
            square += sum(length**2 for held, length in norms if held == together)
    return None if parts[rank].norms is None else float(np.sqrt(square))


def _present(step: Step, ranks: Sequence[Rank]) -> tuple[NDArray[np.bool_], list[str]]:
    """Which whole updates there are, and what is missing of others."""
    present, torn = step.present_RP.copy(), []
    places = {rank.rank: row for row, rank in enumerate(ranks)}
    for p, parameter in enumerate(step.parameters):
        for row, rank in enumerate(ranks):
            layout = rank.layouts.get(("update", parameter.name))
            if layout is None or len(layout.parts) == 1:
                continue
            holding = [other for other in layout.parts if other in places and _holds(ranks[places[other]], parameter)]
            absent = [other for other in holding if not step.present_RP[places[other], p]]
            present[row, p] = len(absent) < len(holding)
            if absent and present[row, p]:
                present[row, p] = False
                torn.append(shard_words.shard_missing(parameter.name, absent))
    return present, list(dict.fromkeys(torn))[:3]


def _holds(rank: Rank, parameter: Parameter) -> bool:
    """Whether a rank has an element of a parameter's update; small ones lie on some ranks alone."""
    layout = rank.layouts.get(("update", parameter.name))
    return layout is None or all(first < stop for first, stop in layout.span)


def _shards(step: Step, ranks: Sequence[Rank]) -> list[Shard]:
    found = []
    for p, parameter in enumerate(step.parameters):
        for row, rank in enumerate(ranks):
            layout: Layout | None = rank.layouts.get(("update", parameter.name))
            if layout is not None and len(layout.parts) > 1 and step.present_RP[row, p]:
                columns = np.asarray(layout.held, dtype=np.int64) + step.starts[p]
                found.append(Shard(rank.rank, p, columns, layout.span))
    return found
