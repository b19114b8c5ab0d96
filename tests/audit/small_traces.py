"""Traces of two small parameters, written record by record: backward passes, steps, and what stands between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.traces import Records, backward, header, loss, parameter, step, write_records
from failuremap.audit import trace
from failuremap.audit.steps.story import Rank, read_rank
from failuremap.audit.steps.windows import Assembler, Step

TWO = {"a": (4,), "b": (3,)}
ZERO = np.zeros(7, dtype=np.float32)


def numbers(*values: float) -> NDArray[np.float32]:
    """Numbers as a trace holds them."""
    return np.array(values, dtype=np.float32)


def ranks_of(folder: Path, *ranks: Records) -> list[Rank]:
    """Writes each rank's records and reads them."""
    for rank, records in enumerate(ranks):
        write_records(folder, rank, records)
    return [read_rank(read) for read in trace.read_folder(folder)]


def steps_of(folder: Path, *ranks: Records) -> list[Step]:
    """Writes each rank's records and lines the ranks up."""
    return list(Assembler(ranks_of(folder, *ranks), len(ranks)).steps())


def opened(rank: int = 0, world_size: int = 1, names: dict[str, tuple[int, ...]] | None = None) -> Records:
    """The header and the parameters of a trace."""
    shapes = (names or TWO).items()
    return [(header(rank, world_size), None), *((parameter(i, n, s), None) for i, (n, s) in enumerate(shapes))]


def passed(id: int, kept: Any = (), fill: float = 1.0, ids: Any = (0, 1), **more: Any) -> Any:
    """A backward pass whose gradients are all the same number."""
    sizes = [(4, 3)[i] for i in ids]
    fields = backward(id, list(ids), [loss(5, fingerprint=100.0 + id)], kept=list(kept))
    return {**fields, **more}, np.full(sum(sizes), fill, dtype=np.float32)


def stepped(count: int = 0, ids: Any = (0, 1), fill: float = 1.0, optimizer: int = 0, weights: float = 0.5) -> Any:
    """A step whose updates are all the same number."""
    size = sum((4, 3)[i] for i in ids)
    values = [fill] * size + [weights] * size
    return step(count, list(ids), optimizer=optimizer), numbers(*values)
