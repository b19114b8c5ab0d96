"""Pipelines that are written by hand: which pass of one rank goes on from which pass of another.

A stage sends the gradient of its input to the stage before, which starts its backward from it. Both wrote one number of
that tensor down, before it was sent and when it was started from. Followed to the passes that start from a loss, this
says which passes are of one micro-batch; no rank's word on their order is needed.

    the last stage    ... backward from the loss, send ->
    the one before    -> backward from what came, send -> ...

Where a number is met twice, or any pass of these ranks is left over, nothing is concluded.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from failuremap.audit.steps.lent import lent
from failuremap.audit.steps.stages import Stage
from failuremap.audit.steps.story import Backward, Rank, read_rank
from failuremap.audit.trace import Trace

Pass = tuple[int, int]
"""A rank, and the number of its pass."""

# relative difference of numbers of one tensor, which ranks may add up in another order
_SAME = 1e-9


def read_ranks(traces: Sequence[Trace]) -> list[Rank]:
    """Follows all traces; ranks that hand gradients on by hand have stages, as under a schedule.

    Raises:
        TraceError: A record is whole and does not follow the format.
    """
    ranks = lent([read_rank(trace) for trace in traces])
    chains = _chains(ranks)
    if chains is None:
        return ranks
    told = [read_rank(trace, chains.stages.get(trace.rank)) for trace in traces]
    for rank in told:
        for backward in {b.id: b for part in rank.parts for b in part.backwards}.values():
            _tell(backward, (rank.rank, backward.id), chains)
    return told


@dataclass(frozen=True)
class _Chains:
    """Passes, each with the one that it goes on from, up to those that start from a loss."""

    roots: dict[Pass, Pass]
    stages: dict[int, int]
    """By rank; 0 is the first stage."""
    pipelines: dict[int, tuple[int, ...]]
    """By rank: the ranks that run the stages together."""
    believed: set[Pass]
    """Those that start from something of which is not seen that it is the gradient of the next stage's input."""


def _tell(backward: Backward, key: Pass, chains: _Chains) -> None:
    """Gives a pass its place; what it starts from is no loss that was not seen."""
    root = chains.roots.get(key)
    if root is not None:
        backward.stage = Stage(chains.stages[key[0]], root, chains.pipelines[key[0]])
        backward.unseen = [] if backward.received else backward.unseen
        backward.believed = key in chains.believed


def _chains(ranks: Sequence[Rank]) -> _Chains | None:
    """Follows all passes that were started from a gradient; None where there is none, or one can't be followed."""
    passes = {(rank.rank, b.id): b for rank in ranks for part in rank.parts for b in part.backwards}
    before, believed = _before(ranks, {key: backward for key, backward in passes.items() if backward.received})
    if not before:
        return None
    roots, hops = {}, {}
    for key in passes:
        way = [key]
        while way[-1] in before and len(way) <= len(ranks):
            way.append(before[way[-1]])
        if way[-1] in before or way[-1] not in passes:
            return None
        roots[key], hops[key] = way[-1], len(way) - 1
    by_rank = {rank.rank: {hops[key] for key in passes if key[0] == rank.rank} for rank in ranks}
    groups = _together(before)
    if any(len(by_rank[rank]) != 1 for rank in groups):
        return None
    deepest = {rank: max(max(by_rank[other]) for other in group) for rank, group in groups.items()}
    stages = {rank: deepest[rank] - max(by_rank[rank]) for rank in groups}
    return _Chains({key: root for key, root in roots.items() if key[0] in groups}, stages, groups, believed)


def _before(ranks: Sequence[Rank], started: dict[Pass, Backward]) -> tuple[dict[Pass, Pass], set[Pass]]:
    """The pass that each of these goes on from, {} where that can't be told of one; and those that believe another."""
    sent = sorted(
        (number, rank.rank, call.passes - 1, number in call.gradients)
        for rank in ranks
        for part in rank.parts
        for call in part.beside.calls
        for number in call.sent
        if math.isfinite(number) and number != 0  # of nothing, or of too much, it says nothing
    )
    found: dict[Pass, Pass] = {}
    believed = set[Pass]()
    for key, backward in started.items():
        met = [_alike(sent, number) for number in backward.received]
        origins = {origin for alike in met for origin, _ in alike if origin[0] != key[0]}
        if len(origins) != 1:
            return {}, set()
        (found[key],) = origins
        if not all(any(seen for _, seen in alike) for alike in met):  # send calls isend, and one of the two has seen it
            believed.add(key)
    pairs = [(key[0], origin) for key, origin in found.items()]
    return (found, believed) if len(set(pairs)) == len(pairs) else ({}, set())


def _alike(sent: Sequence[tuple[float, int, int, bool]], number: float) -> list[tuple[Pass, bool]]:
    """The passes behind which this number was sent, and whether as the gradient of what was received."""
    near = _SAME * abs(number)
    found = []
    for at in range(bisect_left(sent, (number - near, -1, -1, False)), len(sent)):
        other, rank, last, seen = sent[at]
        if other > number + near:
            break
        found.append(((rank, last), seen))
    return found


def _together(before: dict[Pass, Pass]) -> dict[int, tuple[int, ...]]:
    """The ranks that hand gradients to one another, by rank."""
    groups: dict[int, set[int]] = {}
    for (rank, _), (other, _) in before.items():
        joined = groups.get(rank, {rank}) | groups.get(other, {other})
        groups |= dict.fromkeys(joined, joined)
    return {rank: tuple(sorted(group)) for rank, group in groups.items()}
