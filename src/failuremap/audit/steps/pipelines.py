"""Ranks that run the stages of one pipeline: what they do with a micro-batch is one contribution, told by the first.

The schedule numbers the micro-batches alike on all stages. The passes of one number are put together: each stage brings
the gradients of its own parameters, and the last one the loss. Where the numbers differ, nothing is put together.

Legend: K contributions, R ranks, P parameters, L numbers of all parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.sentences import pipeline_words
from failuremap.audit.steps.joining import whole_length
from failuremap.audit.steps.stages import Slot
from failuremap.audit.steps.story import Backward, Part
from failuremap.audit.steps.tied import Tied, add_up_tied

if TYPE_CHECKING:
    from failuremap.audit.steps.windows import Step

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pipelines:
    """What is known of a step whose ranks run stages."""

    groups: list[list[int]]
    """The ranks of each pipeline; the first of them tells of it."""
    reasons: list[str] = field(default_factory=list)
    """Why the passes could not be put together."""
    believed: bool = False
    """Whether the script hands on something of which is not seen that it is the gradient of a stage's input."""
    clip_factors: dict[int, float] = field(default_factory=dict)
    """By rank, where all of them clip once behind their last passes."""
    alike: list[Tied] = field(default_factory=list)
    """Parameters of several stages that began alike and step alike; they are one here."""
    apart: list[Tied] = field(default_factory=list)
    """Those that began alike and step apart."""


def one_rank_a_pipeline(step: Step, copies: Sequence[Tied]) -> Step:
    """The step as if the first rank of each pipeline had run all of its stages; unchanged where there is none.

    Args:
        step: The step, with whole updates where they are sharded.
        copies: Weights of several stages that begin alike.
    """
    groups = _groups(step)
    if not groups:
        return step
    joiners = [_Pipeline(step, ranks) for ranks in groups]
    reasons = [reason for joiner in joiners for reason in joiner.reasons]
    believed = any(backward.believed for backward in step.backwards)
    found = Pipelines(groups, reasons, believed, _clip_factors(joiners[0].parts))
    if found.reasons:
        return replace(step, pipelines=found)
    present_RP = np.array([joiner.present_P for joiner in joiners])
    joined = replace(
        step,
        ranks=[ranks[0] for ranks in groups],
        parts=[joiner.part(joiners) for joiner in joiners],
        keys=[(ranks[0], b) for ranks, joiner in zip(groups, joiners, strict=True) for b in range(len(joiner.slots))],
        backwards=[backward for joiner in joiners for backward in joiner.backwards],
        contributions_KL=np.concatenate([joiner.summed(step.contributions_KL) for joiner in joiners]),
        altered_KL=None if step.altered_KL is None else np.concatenate([j.summed(step.altered_KL) for j in joiners]),
        updates_RL=np.array([joiner.update_L for joiner in joiners]),
        present_RP=present_RP,
        length=joiners[0].length,
        pipelines=found,
    )
    return add_up_tied(joined, copies)


def _groups(step: Step) -> list[list[int]]:
    """The ranks of the step by pipelines, and each other rank alone; [] where no pass has a stage."""
    groups = {rank: {rank} for rank in step.ranks}
    staged = [{rank, *b.stage.ranks} for (rank, _), b in zip(step.keys, step.backwards, strict=True) if b.stage]
    for ranks in staged:
        together = set[int]().union(*(groups[rank] for rank in ranks if rank in groups))
        groups |= dict.fromkeys(together, together)
    return sorted({tuple(sorted(group)): sorted(group) for group in groups.values()}.values()) if staged else []


class _Pipeline:
    """The passes and the updates of the ranks of one pipeline, or of one rank that is in none."""

    def __init__(self, step: Step, ranks: list[int]) -> None:
        self.step, self.ranks = step, ranks
        self.rows = [step.ranks.index(rank) for rank in ranks]
        by_slot: dict[Slot, list[int]] = {}
        by_stage: dict[tuple[int, int], list[Slot]] = {}
        for k, ((rank, number), backward) in enumerate(zip(step.keys, step.backwards, strict=True)):
            if rank in ranks:
                stage = backward.stage
                slot = (0, number) if stage is None else stage.slot
                by_slot.setdefault(slot, []).append(k)
                by_stage.setdefault((-1 if stage is None else stage.index, rank), []).append(slot)
        self.slots = [by_slot[slot] for slot in sorted(by_slot)]
        self.reasons = self._unlike({key: set(slots) for key, slots in by_stage.items()})

    def _unlike(self, by_stage: dict[tuple[int, int], set[Slot]]) -> list[str]:
        """Why passes cannot be put together: some have no stage, or stages have passes of other micro-batches."""
        if len(self.ranks) > 1 and any(index < 0 for index, _ in by_stage):
            return [pipeline_words.passes_outside(self.ranks)]
        if len({frozenset(slots) for slots in by_stage.values()}) > 1:
            counts = {index: len(slots) for (index, _), slots in sorted(by_stage.items())}
            return [pipeline_words.passes_differ(self.ranks, counts)]
        return []

    def summed(self, vectors_KL: Floats) -> Floats:
        """The vectors of each micro-batch's passes, added up."""
        return np.array([vectors_KL[members].sum(axis=0) for members in self.slots]).reshape(-1, vectors_KL.shape[1])

    @property
    def backwards(self) -> list[Backward]:
        """One pass for each micro-batch, with the losses of all stages."""
        return [_one_pass([self.step.backwards[k] for k in members]) for members in self.slots]

    @property
    def update_L(self) -> Floats:
        """What the stages step on, each parameter where it is."""
        found: Floats = self.step.updates_RL[self.rows].sum(axis=0)
        return found

    @property
    def present_P(self) -> NDArray[np.bool_]:
        """The parameters that some stage has an update of."""
        found: NDArray[np.bool_] = np.logical_or.reduce(self.step.present_RP[self.rows], axis=0)
        return found

    @property
    def parts(self) -> list[Part]:
        """The sides of its ranks."""
        return [self.step.parts[row] for row in self.rows]

    @property
    def length(self) -> float | None:
        """The length of the whole update."""
        by_rank = {part.rank: part for part in self.step.parts}
        lengths = [whole_length(by_rank, rank) for rank in self.ranks]
        known = [length for length in lengths if length is not None]
        return float(np.sqrt(sum(length**2 for length in known))) if len(known) == len(lengths) else None

    def part(self, pipelines: Sequence[_Pipeline]) -> Part:
        """The sides of its ranks as one, in whose calls the first rank of a pipeline stands for all of its ranks."""
        first = {rank: pipeline.ranks[0] for pipeline in pipelines for rank in pipeline.ranks}
        parts = self.parts
        beside = replace(
            parts[0].beside,
            calls=[
                replace(call, ranks=tuple(sorted({first.get(rank, rank) for rank in call.ranks})))
                for part in parts
                for call in part.beside.calls
            ],
            rates={name: rate for part in parts for name, rate in part.beside.rates.items()},
        )
        return replace(
            parts[0],
            backwards=self.backwards,
            beside=beside,
            clips=_clips_of_all(parts, max((backward.id for backward in self.backwards), default=-1)),
            unwatched=[name for part in parts for name in part.unwatched],
            in_part=any(part.in_part for part in parts),
            unread=max(part.unread for part in parts),
        )


def _one_pass(same: list[Backward]) -> Backward:
    """The passes of one micro-batch as one: that of the last stage, with what all of them tell."""
    last = max(same, key=lambda backward: -1 if backward.stage is None else backward.stage.index)
    return replace(
        last,
        losses=[loss for backward in same for loss in backward.losses],
        counts=[count for backward in same for count in backward.counts],
        unseen=sorted({name for backward in same for name in backward.unseen}),
    )


def _late_clips(part: Part) -> list[dict[str, Any]]:
    """The clips of a rank behind its last pass."""
    return [clip for clip in part.clips if not part.backwards or clip["after"] >= part.backwards[-1].id]


def _clips_of_all(parts: Sequence[Part], last: int) -> list[dict[str, Any]]:
    """The clips that all stages make alike behind their last passes; [] where they are not alike."""
    late = [_late_clips(part) for part in parts]
    if len({tuple((clip["norm"], clip["limit"]) for clip in clips) for clips in late}) > 1:
        return []
    return [{**clip, "after": last} for clip in late[0]]


def _clip_factors(parts: Sequence[Part]) -> dict[int, float]:
    """What each rank's clip makes of its gradients, where all clip once; {} elsewhere."""
    late = {part.rank: _late_clips(part) for part in parts}
    if any(len(clips) != 1 for clips in late.values()):
        return {}
    return {rank: min(1.0, clip["limit"] / (clip["norm"] + 1e-6)) for rank, (clip,) in late.items()}
