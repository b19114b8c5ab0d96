"""Training jobs as their traces tell them, written by hand: no torch, no processes, every number known.

Legend: R ranks, M micro-batches of the window, L numbers of all parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.trace import TraceWriter

Floats = NDArray[np.float64]
Records = list[tuple[dict[str, Any], NDArray[np.float32] | None]]

SHAPES = {"embed.weight": (512, 8), "layer.weight": (8, 8), "layer.bias": (8,), "head.weight": (10, 8)}


def rows(shape: tuple[int, ...]) -> int:
    """Numbers in the sketch of a tensor."""
    return min(int(np.prod(shape)), 128)


def coordinates(shape: tuple[int, ...]) -> int:
    """Numbers of the sketch that are elements of the tensor."""
    size = int(np.prod(shape))
    return size if size <= 128 else 64


@dataclass
class Window:
    """What all ranks computed before one optimizer step."""

    number: int
    counts_RM: Floats
    gradients_RML: Floats
    before: Window | None
    names: list[str]
    starts: list[int]
    updates_RL: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def combined(self, coefficients: Any) -> Floats:
        """The update of every rank: coefficients for all ranks' contributions, the same on every rank."""
        coefficients_RM = np.broadcast_to(coefficients, self.counts_RM.shape)
        one = np.einsum("rm,rml->l", coefficients_RM, np.nan_to_num(self.gradients_RML))
        return np.repeat(one[None], len(self.counts_RM), axis=0)

    def columns(self, name: str) -> slice:
        """Where a parameter's numbers are."""
        place = self.names.index(name)
        return slice(self.starts[place], self.starts[place + 1])


def mean_of_means(window: Window) -> Floats:
    """1/K for each contribution."""
    return window.combined(1 / window.counts_RM.size)


@dataclass
class HandJob:
    """A job; each field is something that jobs do right or wrong."""

    counts: Sequence[Any] = ((412, 412), (412, 412))
    """Units by rank and micro-batch; or a list of such tables, one a step."""
    update: Callable[[Window], Floats] = mean_of_means
    scale: Callable[[Floats], Any] = np.ones_like
    """What reached each loss (a mean), by its counts."""
    steps: int = 3
    shapes: dict[str, tuple[int, ...]] = field(default_factory=lambda: dict(SHAPES))
    dtype: str = "float32"
    path: dict[str, Any] = field(default_factory=dict)
    keeps: bool = True
    """Whether .grad is still there when the window's second backward begins."""
    seed: int = 0
    unit: str = "token"
    gradients: Callable[[Floats, int], Floats] = lambda gradients, _: gradients
    """A last change of one window's gradients (R, M, L), given the number of the step."""
    weights: Callable[[Floats, int], Floats] = lambda weights, _: weights
    """A change of one rank's first weights."""

    def windows(self) -> list[Window]:
        """Draws the gradients and makes the updates."""
        generator = np.random.default_rng(self.seed)
        sizes = [rows(shape) for shape in self.shapes.values()]
        starts = [0, *np.cumsum(sizes).tolist()]
        windows: list[Window] = []
        for number in range(self.steps):
            counts = np.array(self.counts if np.ndim(self.counts[0]) == 1 else self.counts[number], dtype=float)
            drawn = generator.normal(size=(*counts.shape, starts[-1]))
            drawn = as_type(self.gradients(drawn, number), self.dtype)
            window = Window(number, counts, drawn, windows[-1] if windows else None, list(self.shapes), starts)
            window.updates_RL = as_type(self.update(window), self.dtype)
            windows.append(window)
        return windows

    def records(self) -> list[Records]:
        """All records of all ranks."""
        windows = self.windows()
        return [self._records_of(rank, windows) for rank in range(len(windows[0].counts_RM))]

    def write(self, folder: Path) -> Path:
        """Writes one trace a rank."""
        for rank, records in enumerate(self.records()):
            write_records(folder, rank, records)
        return folder

    def _records_of(self, rank: int, windows: list[Window]) -> Records:
        ids = list(range(len(self.shapes)))
        weights = self.weights(np.random.default_rng(99).normal(size=windows[0].starts[-1]), rank)
        world_size = len(windows[0].counts_RM)
        found: Records = [(header(rank, world_size, unit=self.unit), None), *self._parameters()]
        number = 0
        for window in windows:
            for micro_batch in range(window.counts_RM.shape[1]):
                found.append(self._backward(rank, micro_batch, window, number, ids))
                number += 1
            found.append((step(window.number, ids), self._step_numbers(window, rank, weights)))
            weights = weights - 0.1 * np.nan_to_num(window.updates_RL[rank])
        found.append((end(ids, len(windows)), weights.astype(np.float32)))
        return found

    def _parameters(self) -> Records:
        return [
            (parameter(id, name, shape, dtype=self.dtype), None) for id, (name, shape) in enumerate(self.shapes.items())
        ]

    def _backward(
        self, rank: int, micro_batch: int, window: Window, number: int, ids: list[int]
    ) -> tuple[dict[str, Any], NDArray[np.float32]]:
        count = float(window.counts_RM[rank, micro_batch])
        scale = np.broadcast_to(self.scale(window.counts_RM), window.counts_RM.shape)[rank, micro_batch]
        seen = loss(count, float(scale), fingerprint=1000.0 * (rank + 1) + number + self.seed / 7)
        kept = ids if micro_batch and self.keeps else []
        numbers = window.gradients_RML[rank, micro_batch].astype(np.float32)
        return backward(number, ids, [seen], kept=kept, path=self.path), numbers

    def _step_numbers(self, window: Window, rank: int, weights: Floats) -> NDArray[np.float32]:
        shown = [
            weights[start : start + (rows(shape) if window.number == 0 else coordinates(shape))]
            for start, shape in zip(window.starts, self.shapes.values(), strict=False)
        ]
        return np.concatenate([window.updates_RL[rank], *shown]).astype(np.float32)


def as_type(numbers: Floats, dtype: str) -> Floats:
    """Rounds as a type does."""
    if dtype == "bfloat16":
        bits = numbers.astype(np.float32).view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return rounded.astype(np.uint32).view(np.float32).astype(float)
    return numbers.astype(np.float16 if dtype == "float16" else np.float32).astype(float)


def header(rank: int, world_size: int, *, run: str = "run0", unit: str = "token") -> dict[str, Any]:
    """The first record of a trace."""
    return {"kind": "header", "format": 2, "run": run, "rank": rank, "world_size": world_size, "unit": unit}


def parameter(id: int, name: str, shape: tuple[int, ...], *, dtype: str = "float32") -> dict[str, Any]:
    """The record that introduces a parameter."""
    return {
        "kind": "parameter", "id": id, "name": name, "shape": list(shape), "dtype": dtype,
        "rows": rows(shape), "coordinates": coordinates(shape),
    }  # fmt: skip


def loss(count: float, scale: float | None = 1.0, **more: Any) -> dict[str, Any]:
    """A loss function that was seen in a backward pass."""
    told = {"function": "cross_entropy", "reduction": "mean", "site": "train.py:41", "classes": 10}
    return {**told, "count": count, "scale": scale, **more}


def backward(
    id: int,
    ids: list[int],
    losses: list[dict[str, Any]],
    *,
    kept: Sequence[int] = (),
    path: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The record of a backward pass."""
    return {
        "kind": "backward", "id": id, "via": "backward", "parameters": ids, "kept": list(kept), "altered": [],
        "unseen": [], "path": path or {}, "losses": losses, "counts": [],
    }  # fmt: skip


def step(count: int, ids: list[int], *, optimizer: int = 0) -> dict[str, Any]:
    """The record of an optimizer step."""
    return {
        "kind": "step", "optimizer": optimizer, "count": count, "parameters": ids, "absent": [], "unwatched": [],
        "weights": "coordinates" if count else "sketch",
    }  # fmt: skip


def end(ids: list[int], steps: int) -> dict[str, Any]:
    """The last record of a trace."""
    return {"kind": "end", "parameters": ids, "errors": [], "steps": steps, "comm_hooks": []}


def write_records(folder: Path, rank: int, records: Records, process: int = 1) -> Path:
    """Writes one rank's trace."""
    path = folder / f"rank{rank:05d}-{process}.trace"
    writer = TraceWriter(path)
    for fields, numbers in records:
        writer.write(fields, numbers)
    writer.close()
    return path


def of_kind(records: Records, kind: str) -> list[int]:
    """Where the records of a kind are."""
    return [place for place, (fields, _) in enumerate(records) if fields["kind"] == kind]
