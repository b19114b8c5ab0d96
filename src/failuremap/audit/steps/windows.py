"""From traces to steps: which contributions, of which ranks, stood before each optimizer step. Pure NumPy.

Legend: K contributions, R ranks, P parameters, L numbers of all their sketches one after another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.extent import Extent
from failuremap.audit.signs.replicas import Agreement, compared
from failuremap.audit.steps.clipped import unclipped
from failuremap.audit.steps.discarded import Discarded
from failuremap.audit.steps.joining import Sharding, joined, whole_length, whole_rows
from failuremap.audit.steps.pipelines import Pipelines, one_rank_a_pipeline
from failuremap.audit.steps.story import Backward, Chunk, Parameter, Part, Rank
from failuremap.audit.steps.tied import tied_at_start

Floats = NDArray[np.float64]
Key = tuple[int, int]


@dataclass
class Step:
    """One optimizer step, all ranks together: vectors over the numbers of all parameters.

    contributions_KL has zeros where a contribution has no gradient for a parameter; updates_RL has one row a rank.
    """

    number: int
    ranks: list[int]
    parameters: list[Parameter]
    starts: NDArray[np.int64]
    keys: list[Key]
    backwards: list[Backward]
    contributions_KL: Floats
    updates_RL: Floats
    present_RP: NDArray[np.bool_]
    weights_RL: Floats
    """The weights before the step as each rank wrote them down; nan where it did not."""
    weights_equal: bool | None
    weights_differ_in: list[str]
    parts: list[Part]
    set_aside: dict[Key, str]
    missing_ranks: list[int]
    altered_KL: Floats | None
    """The contributions as the script's own hooks on parameters left them; None where it has none."""
    length: float | None = None
    """Length of the update of the first rank; None where it is not known."""
    doubts: list[str] = field(default_factory=list)
    """Why it cannot be told what the step owes."""
    agreeing_ranks: list[list[int]] = field(default_factory=list)
    """Ranks that start the step from the same weights, by groups; [] where there are too many groups to list."""
    differ_by_rounding: bool = False
    """Whether ranks start from weights that differ, and by no more than a few roundings."""
    clip_seen: bool = False
    """Whether torch clipped gradients, all or some: the norm of the update is that of clips then."""
    parameter_total: int = 0
    """Parameters that the optimizer steps on in all, where fewer were read."""
    sharding: Sharding | None = None
    """Where ranks hold something together: the vectors above are of the whole, this is what each rank has."""
    pipelines: Pipelines | None = None
    """Where ranks run stages: the vectors above are of whole pipelines, each told by its first rank."""

    @property
    def extent(self) -> Extent:
        """How many of the parameters it shows."""
        return Extent(len(self.parameters), max(self.parameter_total, len(self.parameters)))

    @property
    def in_part(self) -> bool:
        """Whether a rank read a few parameters only; of the others the step says nothing."""
        return any(part.in_part for part in self.parts)

    @property
    def used_KP(self) -> NDArray[np.bool_] | None:
        """Whether a contribution has a gradient of a parameter; None where a few parameters were read."""
        if self.in_part or not self.parameters:
            return None
        used_KP: NDArray[np.bool_] = np.logical_or.reduceat(self.contributions_KL != 0, self.starts[:-1], axis=1)
        return used_KP

    def with_zeros(self, indices: Sequence[int]) -> Step:
        """The step with zeros in place of some contributions."""
        contributions_KL, altered_KL = self.contributions_KL.copy(), self.altered_KL
        contributions_KL[indices] = 0.0
        if altered_KL is not None:
            altered_KL = altered_KL.copy()
            altered_KL[indices] = 0.0
        return replace(self, contributions_KL=contributions_KL, altered_KL=altered_KL)

    def without(self, indices: Sequence[int]) -> Step:
        """The step without some contributions; the micro-batches that are left are numbered anew."""
        kept = [k for k in range(len(self.keys)) if k not in set(indices)]
        counts: Counter[int] = Counter()
        keys: list[Key] = []
        for k in kept:
            rank = self.keys[k][0]
            keys.append((rank, counts[rank]))
            counts[rank] += 1
        return replace(
            self,
            keys=keys,
            backwards=[self.backwards[k] for k in kept],
            contributions_KL=self.contributions_KL[kept],
            altered_KL=None if self.altered_KL is None else self.altered_KL[kept],
        )


class Assembler:
    """Lines the ranks' parts up and lays their numbers out in one order."""

    def __init__(self, ranks: list[Rank], rank_count: int) -> None:
        self.ranks, self.rank_count = ranks, rank_count
        self._maps: dict[Any, Any] = {}
        self._discarded = Discarded(ranks)
        self._stepped: dict[int, set[str]] = {}
        """Names of all parameters that each optimizer steps on, once they are asked for."""
        self._tied = tied_at_start(ranks)

    def steps(self) -> Iterator[Step]:
        """All steps, in order."""
        for number, found in enumerate(self._lined_up()):
            step = self._assemble(number, found)
            step = joined(step, [rank for rank in self.ranks if rank.rank in found])
            yield one_rank_a_pipeline(step, self._tied)

    def _lined_up(self) -> list[dict[int, Part]]:
        """Rank -> its part, step by step; where the ranks stepped unlike often, by the last backward before."""
        if len({len(rank.parts) for rank in self.ranks}) == 1:
            rows = zip(*(rank.parts for rank in self.ranks), strict=True)
            return [{part.rank: part for part in row} for row in rows]
        by_backward: dict[tuple[int, int], dict[int, Part]] = {}
        for rank in self.ranks:
            for part in rank.parts:
                last = part.backwards[-1].id if part.backwards else -1
                by_backward.setdefault((last, part.optimizer), {})[rank.rank] = part
        return [by_backward[key] for key in sorted(by_backward)]

    def _assemble(self, number: int, found: dict[int, Part]) -> Step:
        having = [rank for rank in self.ranks if rank.rank in found]
        parts = [found[rank.rank] for rank in having]
        parameters = self._common(having, parts)
        starts = np.cumsum([0] + [parameter.rows for parameter in parameters])
        place = {parameter.name: index for index, parameter in enumerate(parameters)}
        keys, backwards, rows, altered = [], [], [], []
        aside: dict[Key, str] = {}
        for rank, part in zip(having, parts, strict=True):
            reasons = self._discarded.reasons(part)
            aside |= {(rank.rank, id): reason for id, reason in reasons.items()}
            owed = [backward for backward in part.backwards if backward.id not in reasons]
            for micro_batch, backward in enumerate(owed):
                keys.append((rank.rank, micro_batch))
                backwards.append(backward)
                rows.append(self._sum(rank, backward.chunks, place, starts))
                altered.append(self._replaced(rank, rows[-1], backward, place, starts))
        size = int(starts[-1])
        updates = [self._last(rank, part, place, starts) for rank, part in zip(having, parts, strict=True)]
        updates_RL = np.array([row for row, _ in updates]).reshape(len(updates), size)
        clipped_alike, updates_RL = unclipped(parts, updates_RL, place, starts)
        weights = np.array([self._weights(rank, part, place, starts) for rank, part in zip(having, parts, strict=True)])
        agreed = self._compare_weights(having, weights, starts, parameters)
        here = [rank.rank for rank in having]
        return Step(
            number=number + 1,
            ranks=here,
            parameters=parameters,
            starts=starts,
            keys=keys,
            backwards=backwards,
            contributions_KL=np.array(rows).reshape(len(rows), size),
            updates_RL=updates_RL,
            present_RP=np.array([present for _, present in updates]).reshape(len(updates), len(parameters)),
            weights_equal=None if agreed is None else not agreed.differs_P.any(),
            weights_differ_in=[] if agreed is None else [parameters[p].name for p in np.flatnonzero(agreed.differs_P)],
            agreeing_ranks=[] if agreed is None else agreed.groups,
            differ_by_rounding=agreed is not None and agreed.by_rounding,
            weights_RL=weights,
            parts=clipped_alike,
            clip_seen=any(part.clips for part in parts),
            set_aside=aside,
            missing_ranks=sorted(set(range(self.rank_count)) - set(here)),
            altered_KL=np.array(altered).reshape(len(rows), size) if any(b.altered for b in backwards) else None,
            length=whole_length(found, here[0]),
            parameter_total=self._total(parts),
            doubts=list(dict.fromkeys(doubt for part in parts for doubt in self._discarded.doubts(part))),
        )

    def _total(self, parts: list[Part]) -> int:
        """How many parameters there are where a step shows a few; else 0."""
        if not any(part.in_part for part in parts):
            return 0
        if not self._stepped:
            for rank in self.ranks:
                seen = {(part.optimizer, chunk.ids) for part in rank.parts for chunk in part.updates}
                for optimizer, ids in seen:
                    self._stepped.setdefault(optimizer, set()).update(rank.parameters[id].name for id in ids)
        return len(set[str]().union(*(self._stepped.get(part.optimizer, ()) for part in parts)))

    @staticmethod
    def _common(having: list[Rank], parts: list[Part]) -> list[Parameter]:
        found: dict[str, Parameter] = {}
        for rank, part in zip(having, parts, strict=True):
            for id in sorted(part.ids):
                if rank.parameters[id].rows:
                    found.setdefault(rank.parameters[id].name, rank.parameters[id])
        for rank, part in zip(having, parts, strict=True):
            if part.in_part:  # of the others that the rank has it read nothing
                unread = {parameter.name for parameter in rank.parameters.values()}
                unread -= {rank.parameters[id].name for id in part.ids}
                found = {name: parameter for name, parameter in found.items() if name not in unread}
        return list(found.values())

    def _sum(self, rank: Rank, chunks: Iterable[Chunk], place: dict[str, int], starts: NDArray[np.int64]) -> Floats:
        """What a backward brought, in all its chunks together."""
        row = np.zeros(int(starts[-1]))
        for chunk in chunks:
            source, target, _ = self._map(rank, chunk.ids, place, starts, "rows")
            if len(set(chunk.ids)) == len(chunk.ids):
                row[target] += chunk.numbers[source]
            else:  # checkpointing brings one parameter several times in a backward
                np.add.at(row, target, chunk.numbers[source].astype(np.float64))
        return row

    def _replaced(
        self, rank: Rank, row: Floats, backward: Backward, place: dict[str, int], starts: NDArray[np.int64]
    ) -> Floats:
        """A contribution with the gradients that the script's own hooks altered in place of the others."""
        if not backward.altered:
            return row
        row = row.copy()
        for chunk in backward.altered:
            source, target, _ = self._map(rank, chunk.ids, place, starts, "rows")
            row[target] = chunk.numbers[source]
        return row

    def _last(
        self, rank: Rank, part: Part, place: dict[str, int], starts: NDArray[np.int64]
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """The update of each parameter; what was taken before a clip by value stands for what came after it."""
        row, present = np.zeros(int(starts[-1])), np.zeros(len(place), dtype=bool)
        for chunk in part.updates:
            source, target, touched = self._map(rank, chunk.ids, place, starts, "rows")
            row[target] = chunk.numbers[source]
            present[touched] = True
        return row, present

    def _map(
        self, rank: Rank, ids: tuple[int, ...], place: dict[str, int], starts: NDArray[np.int64], kind: str
    ) -> Any:
        key = (rank.rank, ids, tuple(place), kind)
        if key not in self._maps:
            self._maps[key] = self._new_map(rank, ids, place, starts, kind)
        return self._maps[key]

    @staticmethod
    def _new_map(rank: Rank, ids: tuple[int, ...], place: dict[str, int], starts: NDArray[np.int64], kind: str) -> Any:
        source, target, touched, at = [], [], [], 0
        for id in ids:
            parameter = rank.parameters[id]
            size = getattr(parameter, kind)
            index = place.get(parameter.name)
            if index is not None and starts[index + 1] - starts[index] == parameter.rows:
                source.append(np.arange(at, at + size))
                target.append(np.arange(starts[index], starts[index] + size))
                touched.append(index)
            at += size
        join = np.concatenate if source else lambda _: np.empty(0, dtype=np.int64)
        return join(source), join(target), np.array(touched, dtype=np.int64)

    @staticmethod
    def _compare_weights(
        having: list[Rank], weights_RL: Floats, starts: NDArray[np.int64], parameters: list[Parameter]
    ) -> Agreement | None:
        """Whether all ranks start the step from the same weights; None where there is one rank."""
        if len(having) < 2:
            return None
        rows = whole_rows(weights_RL, having, parameters, starts, "weights")
        exact = np.zeros(int(starts[-1]), dtype=bool)
        for index, parameter in enumerate(parameters):
            exact[starts[index] : starts[index] + parameter.coordinates] = True
        return compared(rows, exact, starts, [rank.rank for rank in having])

    def _weights(self, rank: Rank, part: Part, place: dict[str, int], starts: NDArray[np.int64]) -> Floats:
        """The weights before the step, as far as they were written down; nan elsewhere."""
        row = np.full(int(starts[-1]), np.nan)
        for chunk in part.weights:
            kind = "rows" if chunk.whole else "coordinates"
            source, target, _ = self._map(rank, chunk.ids, place, starts, kind)
            row[target] = chunk.numbers[source]
        return row
