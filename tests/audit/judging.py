"""Steps of hand-written jobs, judged: what the tests of judging share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from audit.traces import HandJob, Records, of_kind, write_records
from failuremap.audit import trace
from failuremap.audit.faults import Asked, Fault, Judged
from failuremap.audit.judge import judge
from failuremap.audit.steps.story import read_rank
from failuremap.audit.steps.windows import Assembler

EVEN = [[300, 300], [300, 300]]
UNEVEN = [[400, 300], [100, 200]]
DDP = {"wrappers": 1, "forwards": 1, "armed": 1, "synchronising": True}


def combined(coefficients: Any) -> Any:
    """The update of every rank: these coefficients for all ranks' contributions."""
    return lambda window: window.combined(coefficients)


def share_of_all(counts: Any) -> Any:
    """The scale of a loss that divides its sum by the units of all ranks and micro-batches."""
    return counts / counts.sum()


def edited(job: HandJob, folder: Path, edit: Callable[[int, Records], Records]) -> Path:
    """Writes a job, each rank's records edited."""
    for rank, records in enumerate(job.records()):
        write_records(folder, rank, edit(rank, records))
    return folder


def with_clips(job: HandJob, folder: Path, norms: list[float]) -> Path:
    """Writes a job whose ranks clip to 1 before each step, by these norms."""

    def edit(rank: int, records: Records) -> Records:
        clip = ({"kind": "clip", "function": "clip_grad_norm_", "norm": norms[rank], "limit": 1.0}, None)
        for place in reversed(of_kind(records, "step")):
            records.insert(place, clip)
        return records

    return edited(job, folder, edit)


def with_losses(job: HandJob, folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Writes a job whose backward passes are changed: each record's fields are handed over."""

    def edit(_: int, records: Records) -> Records:
        for place in of_kind(records, "backward"):
            change(records[place][0])
        return records

    return edited(job, folder, edit)


def judged_in(folder: Path, *, promise: Any = "mean", full_window: int = 1) -> list[Judged]:
    """All steps of the traces in a folder, judged one by one, each beside the one before it."""
    traces = trace.read_folder(folder)
    steps = list(Assembler([read_rank(read) for read in traces], traces[0].header["world_size"]).steps())
    asked = Asked(None, "token", promise, full_window)
    return [judge(step, before, asked) for step, before in zip(steps, [None, *steps], strict=False)]


def last(job: HandJob, folder: Path, **asked: Any) -> Judged:
    """The last step of a job, judged."""
    return judged_in(job.write(folder), **asked)[-1]


def the_fault(judged: Judged) -> Fault:
    """The one fault of a step."""
    (only,) = judged.faults
    return only


def kinds(judged: Judged) -> list[str]:
    """The kinds of a step's faults."""
    return [fault.kind for fault in judged.faults]


def shares(judged: Judged) -> list[float]:
    """What a unit of each contribution weighs, as a multiple of its fair share."""
    return [float("nan") if cell.share is None else round(cell.share, 6) for cell in judged.cells]


def silent(judged: Judged) -> bool:
    """Nothing is wrong, doubtful, unexplained or unmeasured."""
    return not (judged.faults or judged.doubts or judged.unexplained or judged.unmeasured)


def zeroed(rank: int) -> Any:
    """Gradients of which one rank's are zero."""

    def change(gradients: Any, _: int) -> Any:
        gradients[rank] = np.zeros_like(gradients[rank])
        return gradients

    return change
