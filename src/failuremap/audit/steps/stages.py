"""What a trace says of pipeline stages: of which stage a parameter is, and of which micro-batch a backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from failuremap.audit.trace import of_runs

if TYPE_CHECKING:
    from failuremap.audit.steps.story import Backward

Slot = tuple[int, int]
"""How often the schedule had run before, and the number that it gives the micro-batch."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a backward pass has its place in a pipeline."""

    index: int
    """Of the stage; 0 is the first."""
    slot: Slot
    """Of the micro-batch: the same on all stages."""
    ranks: tuple[int, ...]
    """Those that run the stages together, this one included."""


def stage_of(fields: dict[str, Any]) -> Stage | None:
    """Reads the stage of a backward pass; None where it is of none."""
    told = fields.get("stage")
    if told is None:
        return None
    slot = int(told["round"]), int(told["micro_batch"])
    return Stage(int(told["index"]), slot, of_runs(told["ranks"]))


def name_on(name: str, stage: int | None) -> str:
    """The name of a parameter among those of all stages, which may each call one so."""
    return name if stage is None else f"{name} (stage {stage})"


def micro_batches(backwards: Sequence[Backward]) -> int:
    """Micro-batches that these passes of one rank are of; a rank with several stages passes each several times."""
    return len({backward.id if backward.stage is None else backward.stage.slot for backward in backwards})


def one_window(first: Sequence[Backward], second: Sequence[Backward]) -> bool:
    """Whether the passes of two optimizers of a rank are of the same micro-batches, on stages of one pipeline."""
    slots = [{backward.stage.slot for backward in passes if backward.stage} for passes in (first, second)]
    return bool(slots[0]) and slots[0] == slots[1] and all(backward.stage for backward in (*first, *second))
