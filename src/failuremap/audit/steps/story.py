"""One rank's trace, followed from its first record to its last: which backward passes stood before each step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.steps.beside import Beside, BesideReader, norms_of
from failuremap.audit.steps.clipped import clip_of
from failuremap.audit.steps.discarded import sort_into_runs
from failuremap.audit.steps.layouts import Layout, layout_of
from failuremap.audit.steps.record_checks import check_losses, check_size
from failuremap.audit.steps.stages import Stage, name_on, one_window, stage_of
from failuremap.audit.trace import Trace
from failuremap.errors import TraceError


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as the trace introduces it."""

    name: str
    rows: int
    coordinates: int
    dtype: str
    size: int
    sparse: bool = False
    """Whether its gradient is a sparse tensor."""
    stage: int | None = None
    """The pipeline stage that it is of; its name says so, too."""
    held_as: frozenset[str] = frozenset()
    """Whether several modules hold, or held, it (several) and whether one of them embeds (embedding)."""


@dataclass
class Chunk:
    """Numbers of some parameters, as one record holds them: whole sketches, or their sampled elements alone."""

    ids: tuple[int, ...]
    numbers: NDArray[np.float32]
    whole: bool = True


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
    kept_in_copies: bool = False
    """Whether what was kept was in copies that the optimizer steps on, which may be written over."""
    chunks: list[Chunk] = field(default_factory=list)
    altered: list[Chunk] = field(default_factory=list)
    """Gradients as the script's own hooks left them, where it has any."""
    stage: Stage | None = None
    """Its place in a pipeline; None where it is of none."""
    received: tuple[float, ...] = ()
    """Numbers by which the gradients that it was started from are known again, where it was given any."""
    believed: bool = False
    """Whether another rank sent these, and not seen is that they are the gradient of its input."""

    @property
    def fingerprints(self) -> frozenset[float]:
        """What tells this backward's batches from others."""
        return frozenset(round(float(loss["fingerprint"]), 6) for loss in self.losses if "fingerprint" in loss)


@dataclass(eq=False)
class Part:
    """One rank's side of one step; equal to itself alone."""

    rank: int
    optimizer: int
    count: int
    backwards: list[Backward]
    updates: list[Chunk]
    weights: list[Chunk]
    absent: list[str]
    unwatched: list[str]
    clips: list[dict[str, Any]]
    norms: list[tuple[tuple[int, ...], float]] | None
    """Lengths of what this rank has of the update, by the ranks that hold it together (() where it is whole)."""
    beside: Beside = field(default_factory=Beside)
    in_part: bool = False
    """Whether only a few parameters were read; the others say nothing."""
    unread: int = 0
    """Backward passes that reached none of the parameters that were read."""
    new: bool = False
    """Whether parameters stepped that were never read before."""
    runs: list[list[int]] = field(default_factory=list)
    """The passes between one clearing of the gradients and the next; the update holds the last run."""

    @property
    def ids(self) -> set[int]:
        """The parameters that this step has an update for."""
        return {id for chunk in self.updates for id in chunk.ids}

    @property
    def discarded(self) -> set[int]:
        """The passes whose gradients were cleared before the step."""
        return {id for run in self.runs[:-1] for id in run}


@dataclass
class Rank:
    """One rank's whole story."""

    rank: int
    parameters: dict[int, Parameter]
    parts: list[Part]
    left_over: int
    final_weights: Chunk | None
    notes: list[str]
    layouts: dict[tuple[str, str], Layout] = field(default_factory=dict)
    """By what is distributed (gradient, update, weights) and the parameter's name."""
    unstepped: list[Backward] = field(default_factory=list)
    """The passes that came before no optimizer step."""


def read_rank(trace: Trace, stage: int | None = None) -> Rank:
    """Follows one trace from its first record to its last.

    Args:
        trace: The trace.
        stage: The pipeline stage that the rank runs, where the trace does not say it.

    Raises:
        TraceError: A record is whole and does not follow the format.
    """
    story = _Story(trace.rank, stage)
    for number, record in enumerate(trace.records()):
        try:
            story.read(record.fields, record.payload)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise TraceError(
                f"{trace.path}: record {number} ({record.kind}) does not follow the format "
                f"({type(error).__name__}: {error}); see docs/trace-format.md."
            ) from error
    return story.told()


class _Story:
    """The state of following a trace: what is pending for the next step of each parameter."""

    def __init__(self, rank: int, stage: int | None = None) -> None:
        self.rank, self.stage = rank, stage
        self.parameters: dict[int, Parameter] = {}
        self.layouts: dict[tuple[str, str], Layout] = {}
        self.pending: dict[int, Backward] = {}
        self.waiting: dict[int, set[int]] = {}
        self.clips: list[dict[str, Any]] = []
        self.before_clip: list[tuple[float, Chunk]] = []
        self.parts: list[Part] = []
        self.notes: list[str] = []
        self.final: Chunk | None = None
        self.last_backward = 0
        self.beside = BesideReader(lambda id: self.parameters[id].name)

    def read(self, fields: dict[str, Any], payload: NDArray[np.float32]) -> None:
        """Takes in one record; kinds that a step does not need are passed over."""
        readers = {
            "parameter": self._parameter, "backward": self._backward, "step": self._step, "clip": self._clip,
            "value-clip": self._value_clip, "note": self._note, "end": self._end, "layout": self._layout,
            "group": self.beside.group, "collectives": self.beside.collectives,
        }  # fmt: skip
        if fields["kind"] in readers:
            readers[fields["kind"]](fields, payload)

    def _parameter(self, fields: dict[str, Any], _: NDArray[np.float32]) -> None:
        size = int(np.prod(fields["shape"], dtype=np.int64))
        stage = fields.get("stage", self.stage)
        self.parameters[fields["id"]] = Parameter(
            name_on(fields["name"], stage), fields["rows"], fields["coordinates"], fields["dtype"], size,
            bool(fields.get("sparse")), stage, frozenset(fields.get("held_as", ())),
        )  # fmt: skip

    def _layout(self, fields: dict[str, Any], _: NDArray[np.float32]) -> None:
        name = self.parameters[fields["id"]].name
        self.layouts[fields["of"], name] = layout_of(fields, self.rank)

    def _backward(self, fields: dict[str, Any], payload: NDArray[np.float32]) -> None:
        number = self.last_backward = fields["id"]
        if number not in self.pending:
            found = Backward(number, fields["via"], fields["unseen"], fields["path"], stage=stage_of(fields))
            found.received = tuple(map(float, fields.get("received", ())))
            self.pending[number] = found
        check_size(payload, self._rows((*fields["parameters"], *fields["altered"])))
        check_losses(fields["losses"])
        backward = self.pending[number]
        backward.losses += fields["losses"]
        backward.counts += fields["counts"]
        backward.kept |= set(fields["kept"])
        backward.kept_in_copies |= bool(fields.get("kept_in_copies"))
        size = self._rows(fields["parameters"])
        backward.chunks.append(Chunk(tuple(fields["parameters"]), payload[:size]))
        if fields["altered"]:
            backward.altered.append(Chunk(tuple(fields["altered"]), payload[size:]))
        for id in fields["parameters"]:
            self.waiting.setdefault(id, set()).add(number)

    def _clip(self, fields: dict[str, Any], _: NDArray[np.float32]) -> None:
        self.clips.append(clip_of(fields, self.parameters, self.last_backward))

    def _value_clip(self, fields: dict[str, Any], payload: NDArray[np.float32]) -> None:
        check_size(payload, self._rows(fields["parameters"]))
        self.before_clip.append((fields["limit"], Chunk(tuple(fields["parameters"]), payload)))

    def _note(self, fields: dict[str, Any], _: NDArray[np.float32]) -> None:
        self.notes.append(str(fields["text"]))

    def _end(self, fields: dict[str, Any], payload: NDArray[np.float32]) -> None:
        check_size(payload, self._rows(fields["parameters"]))
        self.final = Chunk(tuple(fields["parameters"]), payload)

    def _step(self, fields: dict[str, Any], payload: NDArray[np.float32]) -> None:
        ids = tuple(fields["parameters"])
        update_size = self._rows(ids)
        whole = fields["weights"] == "sketch"
        weights_size = update_size if whole else sum(self.parameters[id].coordinates for id in ids)
        check_size(payload, update_size + weights_size)
        numbers = sorted(set().union(*(self.waiting.pop(id, set()) for id in ids)))
        part = Part(
            self.rank, fields["optimizer"], fields["count"], [self.pending[number] for number in numbers],
            [Chunk(ids, payload[:update_size]), *self._before_clip(Chunk(ids, payload[:update_size]))],
            [Chunk(ids, payload[update_size:], whole)],
            fields["absent"], fields["unwatched"], self.clips, norms_of(fields), self.beside.taken(fields),
            bool(fields.get("in_part")), int(fields.get("unread", 0)), bool(fields.get("new")),
        )  # fmt: skip
        self.clips, self.before_clip = [], []
        if not self._repeats(part):
            self._append(part)

    def _rows(self, ids: Iterable[int]) -> int:
        """Numbers in the sketches of these parameters together."""
        return sum(self.parameters[id].rows for id in ids)

    def _before_clip(self, update: Chunk) -> list[Chunk]:
        """What stood before a clip by value, for the parameters whose update is just that, clipped."""
        after = dict(self._by_parameter(update))
        found = []
        for limit, chunk in self.before_clip:
            for id, numbers in self._by_parameter(chunk):
                sampled = self.parameters[id].coordinates
                clipped = np.clip(numbers[:sampled], -limit, limit)
                if id in after and np.allclose(after[id][:sampled], clipped, rtol=1e-5, atol=0):
                    found.append(Chunk((id,), numbers))
        return found

    def _repeats(self, part: Part) -> bool:
        """An optimizer inside another one steps on the very gradients that the outer one has stepped on."""
        last = self.parts[-1] if self.parts else None
        if part.backwards or last is None or part.optimizer == last.optimizer or not set() < part.ids <= last.ids:
            return False
        before = {id: numbers for chunk in last.updates for id, numbers in self._by_parameter(chunk)}
        return all(np.array_equal(numbers, before[id]) for id, numbers in self._by_parameter(part.updates[0]))

    def _by_parameter(self, chunk: Chunk) -> Iterator[tuple[int, NDArray[np.float32]]]:
        at = 0
        for id in chunk.ids:
            yield id, chunk.numbers[at : at + self.parameters[id].rows]
            at += self.parameters[id].rows

    def _append(self, part: Part) -> None:
        """Optimizers that step on the same backward passes, or on those of other stages, make one step together."""
        last = self.parts[-1] if self.parts else None
        same = last is not None and [b.id for b in last.backwards] == [b.id for b in part.backwards]
        if last is not None and one_window(last.backwards, part.backwards):
            known, same = {backward.id for backward in last.backwards}, True
            last.backwards = [*last.backwards, *(b for b in part.backwards if b.id not in known)]
        if last is None or not same or not part.backwards or last.ids & part.ids:
            self.parts.append(part)
            return
        last.beside.add(part.beside)
        last.in_part, last.unread = last.in_part or part.in_part, max(last.unread, part.unread)
        last.updates += part.updates
        last.weights += part.weights
        last.norms = None if last.norms is None or part.norms is None else last.norms + part.norms
        last.absent, last.unwatched = last.absent + part.absent, last.unwatched + part.unwatched
        last.clips += [clip for clip in part.clips if clip not in last.clips]  # one clip of all may be told for each

    def told(self) -> Rank:
        sort_into_runs(self.parts, self.parameters)
        left = {number for numbers in self.waiting.values() for number in numbers}
        used = {backward.id for part in self.parts for backward in part.backwards}
        alone = [self.pending[number] for number in sorted(left - used)]
        return Rank(self.rank, self.parameters, self.parts, len(alone), self.final, self.notes, self.layouts, alone)
