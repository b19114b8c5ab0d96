"""Ranks that have no optimizer: one rank gets their gradients, steps, and sends the weights back.

Their passes belong to the windows of the rank that steps, as many to each as it has itself. That holds where all have
as many passes in all, and the rank that steps reduces, or gathers, as much as the gradients over these ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from failuremap.audit.steps.discarded import sort_into_runs
from failuremap.audit.steps.story import Chunk, Parameter, Part, Rank

_COLLECTING = ("reduce", "all_reduce", "reduce_scatter", "gather", "all_gather")


def lent(ranks: Sequence[Rank]) -> list[Rank]:
    """The ranks; those that step no optimizer with the steps of the one that does, where their passes are in these."""
    stepping = [rank for rank in ranks if rank.parts]
    if len(stepping) != 1 or len(ranks) < 2:
        return list(ranks)
    (leader,) = stepping
    return [rank if rank is leader else _with_steps(rank, leader) for rank in ranks]


def _with_steps(rank: Rank, leader: Rank) -> Rank:
    ids = {parameter.name: id for id, parameter in rank.parameters.items()}
    same = {id: ids[p.name] for id, p in leader.parameters.items() if p.name in ids and _alike(p, rank, ids)}
    sizes = [len(part.backwards) for part in leader.parts]
    if len(same) < len(leader.parameters) or len(rank.unstepped) != sum(sizes) or not _collects(leader, rank.rank):
        return rank
    left, parts = list(rank.unstepped), []
    for part, size in zip(leader.parts, sizes, strict=True):
        updates, weights = ([_renamed(chunk, same) for chunk in chunks] for chunks in (part.updates, part.weights))
        parts.append(
            replace(
                part, rank=rank.rank, backwards=left[:size], updates=updates, weights=weights, clips=list(part.clips)
            )
        )
        left = left[size:]
    sort_into_runs(parts, rank.parameters)
    said = f"no optimizer steps here: the passes are taken for those of the windows of rank {leader.rank}, which steps"
    return replace(rank, parts=parts, left_over=0, unstepped=[], notes=[*rank.notes, said])


def _alike(parameter: Parameter, rank: Rank, ids: dict[str, int]) -> bool:
    other = rank.parameters[ids[parameter.name]]
    return (other.rows, other.size) == (parameter.rows, parameter.size)


def _collects(leader: Rank, other: int) -> bool:
    """Whether each step comes behind calls that take in as many elements as the gradients have, of another rank."""
    return all(_taken(part, other) >= sum(leader.parameters[id].size for id in part.ids) for part in leader.parts)


def _taken(part: Part, other: int) -> int:
    calls = [call for call in part.beside.calls if other in call.ranks and call.when != "before"]
    return sum(call.elements for call in calls if call.function.startswith(_COLLECTING))


def _renamed(chunk: Chunk, same: dict[int, int]) -> Chunk:
    return replace(chunk, ids=tuple(same[id] for id in chunk.ids))
