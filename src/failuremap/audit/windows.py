"""From traces to steps: which contributions, of which ranks, stood before each optimizer step. Pure NumPy.

Legend: K contributions, R ranks, P parameters, L numbers of all their sketches one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.trace import Trace

Floats = NDArray[np.float64]
Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as the trace introduces it."""

    name: str
    rows: int
    coordinates: int
    dtype: str
    size: int


@dataclass
class Chunk:
    """Numbers of some parameters, as one record holds them."""

    ids: tuple[int, ...]
    numbers: NDArray[np.float32]


@dataclass
class Backward:
    """One backward pass of one rank, with everything that its records say."""

    id: int
    via: str
    unseen: list[str]
    path: dict[str, Any]
    losses: list[dict[str, Any]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)
    chunks: list[Chunk] = field(default_factory=list)
    altered: list[Chunk] = field(default_factory=list)
    """Gradients as the script's own hooks left them, where it has any."""

    @property
    def fingerprints(self) -> frozenset[float]:
        """What tells this backward's batches from others."""
        return frozenset(round(float(loss["fingerprint"]), 6) for loss in self.losses if "fingerprint" in loss)


@dataclass
class Part:
    """One rank's side of one step."""

    rank: int
    optimizer: int
    count: int
    backwards: list[Backward]
    updates: list[Chunk]
    weights: list[Chunk]
    whole_weights: bool
    absent: list[str]
    unwatched: list[str]
    clips: list[dict[str, Any]]
    value_clipped: bool
    discarded: set[int] = field(default_factory=set)

    @property
    def ids(self) -> set[int]:
        """The parameters that this step has an update for."""
        return {id for chunk in self.updates for id in chunk.ids}

    def find_discarded(self) -> None:
        """Marks the backwards whose gradients were thrown away before the step: a later one found .grad empty."""
        ids, since = self.ids, 0
        for position, backward in enumerate(self.backwards):
            touched = {id for chunk in backward.chunks for id in chunk.ids} & ids
            if backward.via != "grad" and touched and not backward.kept & ids:
                since = position
        self.discarded = {backward.id for backward in self.backwards[:since] if backward.via != "grad"}


@dataclass
class Rank:
    """One rank's whole story."""

    rank: int
    parameters: dict[int, Parameter]
    parts: list[Part]
    left_over: int
    final_weights: Chunk | None
    notes: list[str]


def read_rank(trace: Trace) -> Rank:
    """Follows one trace from its first record to its last."""
    story = _Story(trace.rank)
    for record in trace.records():
        story.read(record.fields, record.payload)
    return story.told()


class _Story:
    """The state of following a trace: what is pending for the next step of each parameter."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.parameters: dict[int, Parameter] = {}
        self.pending: dict[int, Backward] = {}
        self.waiting: dict[int, set[int]] = {}
        self.clips: list[dict[str, Any]] = []
        self.before_clip: list[Chunk] = []
        self.parts: list[Part] = []
        self.notes: list[str] = []
        self.final: Chunk | None = None
        self.last_backward = 0

    def read(self, fields: dict[str, Any], payload: NDArray[np.float32]) -> None:
        """Takes in one record; kinds that a step does not need are passed over."""
        readers = {
            "parameter": self._parameter, "backward": self._backward, "step": self._step, "clip": self._clip,
            "value-clip": self._value_clip, "note": self._note, "end": self._end,
        }  # fmt: skip
        if fields["kind"] in readers:
            readers[fields["kind"]](fields, payload)

    def _parameter(self, fields: dict[str, Any], _: NDArray[np.float32]) -> None:
        size = int(np.prod(fields["shape"], dtype=np.int64))
        self.parameters[fields["id"]] = Parameter(
            fields["name"], fields["rows"], fields["coordinates"], fields["dtype"], size
        )

    def _backward(self, fields: dict[str, Any], payload: NDArray[np.float32]) -> None:
        number = self.last_backward = fields["id"]
        if number not in self.pending:
            self.pending[number] = Backward(number, fields["via"], fields["unseen"], fields["path"])
        backward = self.pending[number]
        backward.losses += fields["losses"]
        backward.counts += fields["counts"]
        backward.kept |= set(fields["kept"])
        size = sum(self.parameters[id].rows for id in fields["parameters"])
        backward.chunks.append(Chunk(tuple(fields["parameters"]), payload[:size]))
        if fields.get("altered"):
            backward.altered.append(Chunk(tuple(fields["altered"]), payload[size:]))
        for id in fields["parameters"]:
            self.waiting.setdefault(id, set()).add(number)

    def _clip(self, fields: dict[str, Any], _: NDArray[np.float32]) -> None:
        self.clips.append({**fields, "after": self.last_backward})

    def _value_clip(self, fields: dict[str, Any], payload: NDArray[np.float32]) -> None:
        self.before_clip.append(Chunk(tuple(fields["parameters"]), payload))

    def _note(self, fields: dict[str, Any], _: NDArray[np.float32]) -> None:
        self.notes.append(str(fields["text"]))

    def _end(self, fields: dict[str, Any], payload: NDArray[np.float32]) -> None:
        self.final = Chunk(tuple(fields["parameters"]), payload)

    def _step(self, fields: dict[str, Any], payload: NDArray[np.float32]) -> None:
        ids = tuple(fields["parameters"])
        update_size = sum(self.parameters[id].rows for id in ids)
        numbers = sorted(set().union(*(self.waiting.pop(id, set()) for id in ids)))
        part = Part(
            self.rank, fields["optimizer"], fields["count"], [self.pending[number] for number in numbers],
            [Chunk(ids, payload[:update_size]), *self._taken_before_clip(ids)], [Chunk(ids, payload[update_size:])],
            fields["weights"] == "sketch", fields["absent"], fields["unwatched"], self.clips, bool(self.before_clip),
        )  # fmt: skip
        self.clips, self.before_clip = [], []
        self._append(part)

    def _taken_before_clip(self, ids: tuple[int, ...]) -> list[Chunk]:
        return [chunk for chunk in self.before_clip if set(chunk.ids) <= set(ids)]

    def _append(self, part: Part) -> None:
        """Optimizers that step on the same backward passes make one step together."""
        last = self.parts[-1] if self.parts else None
        same = last is not None and [b.id for b in last.backwards] == [b.id for b in part.backwards]
        if last is None or not same or not part.backwards or last.ids & part.ids:
            self.parts.append(part)
            return
        last.updates += part.updates
        last.weights += part.weights
        last.absent, last.unwatched, last.clips = (
            last.absent + part.absent,
            last.unwatched + part.unwatched,
            last.clips + part.clips,
        )
        last.value_clipped |= part.value_clipped

    def told(self) -> Rank:
        for part in self.parts:
            part.find_discarded()
        left = {number for numbers in self.waiting.values() for number in numbers}
        used = {backward.id for part in self.parts for backward in part.backwards}
        return Rank(self.rank, self.parameters, self.parts, len(left - used), self.final, self.notes)


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
    weights_equal: bool | None
    weights_differ_in: list[str]
    parts: list[Part]
    set_aside: dict[Key, str]
    missing_ranks: list[int]
    altered_KL: Floats | None
    """The contributions as the script's own hooks on parameters left them; None where it has none."""


class Assembler:
    """Lines the ranks' parts up and lays their numbers out in one order."""

    def __init__(self, ranks: list[Rank], rank_count: int) -> None:
        self.ranks, self.rank_count = ranks, rank_count
        self._maps: dict[Any, Any] = {}
        self._live = {
            (rank.rank, backward.id)
            for rank in ranks
            for part in rank.parts
            for backward in part.backwards
            if backward.id not in part.discarded
        }

    def steps(self) -> Iterator[Step]:
        """All steps, in order; ranks are lined up by their numbers of steps."""
        for number in range(max((len(rank.parts) for rank in self.ranks), default=0)):
            yield self._assemble(number)

    def _assemble(self, number: int) -> Step:
        having = [rank for rank in self.ranks if number < len(rank.parts)]
        parts = [rank.parts[number] for rank in having]
        parameters = self._common(having, parts)
        starts = np.cumsum([0] + [parameter.rows for parameter in parameters])
        place = {parameter.name: index for index, parameter in enumerate(parameters)}
        keys, backwards, rows, altered, aside = [], [], [], [], {}
        for rank, part in zip(having, parts, strict=True):
            owed = [backward for backward in part.backwards if self._reason(part, backward) == ""]
            for backward in part.backwards:
                if (reason := self._reason(part, backward)) != "":
                    aside[(rank.rank, backward.id)] = reason
            for micro_batch, backward in enumerate(owed):
                keys.append((rank.rank, micro_batch))
                backwards.append(backward)
                rows.append(self._sum(rank, backward.chunks, place, starts))
                altered.append(self._replaced(rank, rows[-1], backward, place, starts))
        updates = [self._last(rank, part, place, starts) for rank, part in zip(having, parts, strict=True)]
        equal, differing = self._compare_weights(having, parts, place, starts, parameters)
        size = int(starts[-1])
        here = [rank.rank for rank in having]
        return Step(
            number=number + 1,
            ranks=here,
            parameters=parameters,
            starts=starts,
            keys=keys,
            backwards=backwards,
            contributions_KL=np.array(rows).reshape(len(rows), size),
            updates_RL=np.array([row for row, _ in updates]).reshape(len(updates), size),
            present_RP=np.array([present for _, present in updates]).reshape(len(updates), len(parameters)),
            weights_equal=equal,
            weights_differ_in=differing,
            parts=parts,
            set_aside=aside,
            missing_ranks=sorted(set(range(self.rank_count)) - set(here)),
            altered_KL=np.array(altered).reshape(len(rows), size) if any(b.altered for b in backwards) else None,
        )

    @staticmethod
    def _common(having: list[Rank], parts: list[Part]) -> list[Parameter]:
        found: dict[str, Parameter] = {}
        for rank, part in zip(having, parts, strict=True):
            for id in sorted(part.ids):
                found.setdefault(rank.parameters[id].name, rank.parameters[id])
        return list(found.values())

    def _reason(self, part: Part, backward: Backward) -> str:
        """Why a discarded backward is owed nothing by this step; '' if it is owed."""
        if backward.id not in part.discarded:
            return ""
        kept = [other for other in part.backwards if other.id not in part.discarded]
        if (part.rank, backward.id) in self._live:
            return "its gradient went into another optimizer's step"
        if backward.fingerprints and any(backward.fingerprints == other.fingerprints for other in kept):
            return "the same batch went through again before the step"
        if any(not np.isfinite(chunk.numbers).all() for chunk in backward.chunks):
            return "its gradient was not finite and was discarded"
        return ""

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

    def _compare_weights(
        self,
        having: list[Rank],
        parts: list[Part],
        place: dict[str, int],
        starts: NDArray[np.int64],
        parameters: list[Parameter],
    ) -> tuple[bool | None, list[str]]:
        """Whether all ranks start the step from the same weights, bit by bit on the sampled elements."""
        if len(having) < 2:
            return None, []
        kind = "rows" if parts[0].whole_weights else "coordinates"
        first: Floats | None = None
        differs = np.zeros(len(parameters), dtype=bool)
        for rank, part in zip(having, parts, strict=True):
            row = np.full(int(starts[-1]), np.nan)
            for chunk in part.weights:
                source, target, _ = self._map(rank, chunk.ids, place, starts, kind)
                row[target] = chunk.numbers[source]
            if first is None:
                first = row
            unlike = ~(np.isclose(row, first, rtol=1e-5, atol=1e-30) | np.isnan(row) | np.isnan(first))
            if parts[0].whole_weights is False:
                unlike = (row != first) & ~np.isnan(row) & ~np.isnan(first)
            differs |= np.add.reduceat(unlike, starts[:-1]) > 0 if len(parameters) else differs
        return not differs.any(), [parameters[index].name for index in np.flatnonzero(differs)]
