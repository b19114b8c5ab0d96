"""Hand-written jobs whose tensors are spread over ranks: each rank's records hold its own part of the numbers.

Of a tensor of `coordinates` sampled elements the ranks of a group hold one run each; the sums behind them are split by
fixed shares, as those of a shard are a part of those of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.traces import HandJob, Records, coordinates, rows, write_records
from failuremap.audit.trace import as_runs

Numbers = NDArray[Any]


def held(shape: tuple[int, ...], place: int, count: int) -> list[int]:
    """The sampled elements that one of so many ranks holds."""
    return [int(at) for at in np.array_split(np.arange(coordinates(shape)), count)[place]]


def part(numbers: Numbers, shape: tuple[int, ...], place: int, count: int) -> Numbers:
    """One rank's part of a tensor's numbers (the sampled elements, and the sums where they are there)."""
    found = np.zeros_like(numbers)
    mine = held(shape, place, count)
    found[mine] = numbers[mine]
    shares = np.random.default_rng(len(numbers)).dirichlet(np.ones(count), size=len(numbers))[:, place]
    found[coordinates(shape) :] = (numbers * shares)[coordinates(shape) :]
    return found


def layout(id: int, of: str, parts: Sequence[int], mesh: Sequence[int] = (), **where: Any) -> dict[str, Any]:
    """The record that says how something of a parameter is distributed."""
    return {"kind": "layout", "id": id, "of": of, "parts": as_runs(parts), "mesh": as_runs(mesh or parts), **where}


def spread(records: Records, rank: int, job: HandJob, group: Sequence[int], *of: str, factor: float = 1.0) -> Records:
    """One rank's records with its part of the gradients, the updates or the weights in place of the whole ones.

    Args:
        records: Of a job whose ranks hold everything.
        rank: Who wrote them.
        job: The job.
        group: The ranks that hold it together.
        of: What is spread: "gradient", "update", "weights".
        factor: What this rank multiplies its part of the update by.
    """
    shapes, place, count = list(job.shapes.values()), group.index(rank), len(group)
    layouts: Records = []
    for id, shape in enumerate(shapes):
        for what in of:
            where = {"held": held(shape, place, count), "span": [[place, place + 1]]} if what == "update" else {}
            layouts.append((layout(id, what, group, **where), None))
    changed = [_changed(*record, shapes, place, group, of, factor) for record in records]
    first = 1 + len(shapes)
    return [*changed[:first], *layouts, *changed[first:]]


def _changed(
    fields: dict[str, Any],
    numbers: Any,
    shapes: list[tuple[int, ...]],
    place: int,
    group: Sequence[int],
    of: Sequence[str],
    factor: float,
) -> tuple[dict[str, Any], Any]:
    """One record with this rank's part of its numbers."""
    sizes, count = [(rows(shape), shape) for shape in shapes], len(group)
    if (fields["kind"] == "backward" and "gradient" in of) or (fields["kind"] == "end" and "weights" in of):
        return fields, _parts(numbers, sizes, place, count)
    if fields["kind"] != "step":
        return fields, numbers
    told, size = fields, sum(size for size, _ in sizes)
    update, weights = numbers[:size], numbers[size:]
    if "update" in of:
        update = (factor * _parts(update, sizes, place, count)).astype(np.float32)
        told = {**fields, "norms": [{"parts": as_runs(group), "norm": float(np.linalg.norm(update))}]}
    if "weights" in of:
        kept = [(size if fields["weights"] == "sketch" else coordinates(shape), shape) for size, shape in sizes]
        weights = _parts(weights, kept, place, count)
    return told, np.concatenate([update, weights])


def _parts(numbers: Any, sizes: list[tuple[int, tuple[int, ...]]], place: int, count: int) -> Numbers:
    found, at = [], 0
    for size, shape in sizes:
        found.append(part(numbers[at : at + size], shape, place, count))
        at += size
    return np.concatenate(found).astype(np.float32)


def write_sharded(
    job: HandJob, folder: Path, groups: Sequence[Sequence[int]], *of: str, factors: Sequence[float] = ()
) -> Path:
    """Writes a job whose updates and weights (or what else is named) are spread over groups of ranks."""
    for rank, records in enumerate(job.records()):
        group = next(group for group in groups if rank in group)
        factor = factors[rank] if factors else 1.0
        write_records(folder, rank, spread(records, rank, job, group, *(of or ("update", "weights")), factor=factor))
    return folder
