"""Hand-written jobs whose scripts call collectives: what the tests of crossings share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audit.judging import edited
from audit.traces import SHAPES, HandJob, Records, of_kind
from failuremap.audit.trace import as_runs

SIZE = sum(int(np.prod(shape)) for shape in SHAPES.values())
"""Elements of all parameters of a hand-written job."""
IDS = {name: id for id, name in enumerate(SHAPES)}
Calls = Callable[[int, int], Sequence[dict[str, Any]]]
"""(rank, number of the step) -> the calls before it."""


def call(ranks: Sequence[int], **more: Any) -> dict[str, Any]:
    """The script's own all_reduce of as many elements as there are, after backward, into something else."""
    said = {"function": "all_reduce", "when": "after", "own": True, "site": "train.py:7", "calls": 4, "elements": SIZE}
    return {**said, "other_elements": SIZE, "ranks": list(ranks), **more}


def on_gradients(ranks: Sequence[int], names: Sequence[str] = tuple(SHAPES), **more: Any) -> dict[str, Any]:
    """The same in place, on the gradients."""
    return call(ranks, other_elements=0, parameters=[IDS[name] for name in names], **more)


def crossing(ranks: Sequence[int], **more: Any) -> dict[str, Any]:
    """A call in the forward of an autograd function of the script's own."""
    return call(ranks, when="before", by="Sum", site="train.py:3", other_elements=0, **more)


def with_calls(job: HandJob, folder: Path, calls: Calls) -> Path:
    """Writes a job with these calls before its steps."""

    def edit(rank: int, records: Records) -> Records:
        groups: list[tuple[int, ...]] = []
        for number, place in reversed(list(enumerate(of_kind(records, "step")))):
            entries = [dict(entry) for entry in calls(rank, number)]
            for entry in entries:
                ranks = tuple(entry.pop("ranks"))
                groups += [ranks] if ranks not in groups else []
                entry["group"] = groups.index(ranks)
            if entries:
                records.insert(place, ({"kind": "collectives", "calls": entries}, None))
        told: Records = [
            ({"kind": "group", "id": id, "ranks": as_runs(ranks)}, None) for id, ranks in enumerate(groups)
        ]
        return [records[0], *told, *records[1:]]

    return edited(job, folder, edit)
