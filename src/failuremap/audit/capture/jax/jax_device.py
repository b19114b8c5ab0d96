"""The trace of one JAX device: what its callbacks said, in order, and which calls of an optimizer were steps."""

from __future__ import annotations

import functools
import time
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.trace import FORMAT, TraceWriter, trace_path

_RAW, _COORDINATES, _SUMS = 128, 64, 64
# what waits for an optimizer that may never be called again
_MOST_WAITING = 512
Floats = NDArray[np.float32]

TWO_OPTIMIZERS = (
    "watched: two optimizers step in turn on leaves of the same names; say which is which, "
    "watched(optimizer, name=...) and contribution(grads, count, name=...)"
)


def sketch(array: Any) -> Floats:
    """The numbers that stand for an array: itself if it is small, else sampled elements and sums with random signs."""
    flat = np.asarray(array).astype(np.float64).reshape(-1)
    if flat.size <= _RAW:
        return flat.astype(np.float32)
    index, signs = _drawn(flat.size)
    signed = np.pad(flat * signs, (0, -flat.size % _SUMS)).reshape(-1, _SUMS).sum(axis=0)
    return np.concatenate([flat[index], signed]).astype(np.float32)


def unknown(array: Any) -> Floats:
    """The numbers of a sketch of which nothing is known."""
    rows = array.size if array.size <= _RAW else _COORDINATES + _SUMS
    return np.full(rows, np.nan, np.float32)


@functools.lru_cache(maxsize=64)
def _drawn(size: int) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    # by the size alone: the same on every rank
    draw = np.random.default_rng(size)
    return np.sort(draw.integers(0, size, _COORDINATES)), (2 * draw.integers(0, 2, size, dtype=np.int8) - 1)


@dataclass(eq=False)
class _Event:
    """A contribution, or a call of an optimizer."""

    fields: dict[str, Any]
    numbers: Floats
    ids: frozenset[int]
    before: int = 0
    """Of a call: the contributions to its parameters until then, since the start."""
    is_step: bool | None = None
    """Of a call: whether it was a step; not known before the next call."""


class Device:
    """The trace of one device.

    A call waits for the next of its optimizer: optax.MultiSteps calls it at every micro-batch, and lets its count
    advance only where the window is full. What came with a count that did not advance was no step.
    """

    def __init__(self, folder: Path, run_id: str, rank: int, world_size: int, limit: int | None = None) -> None:
        import jax

        self.limit, self.ended = limit, False
        self.writer = TraceWriter(trace_path(folder, rank))
        self.ids: dict[str, int] = {}
        self.steps, self.contributions = 0, Counter[frozenset[int]]()
        self.queue: deque[_Event] = deque()
        self.calls: dict[int, _Event] = {}
        """The last call of each optimizer."""
        self.latest: dict[int, int] = {}
        """The optimizer that was called last, by parameter."""
        self.windows: dict[int, set[int]] = {}
        """How many contributions its steps had, by optimizer."""
        self.stepped: dict[int, int] = {}
        """Contributions before its last step, by optimizer."""
        self.writer.write(
            {
                "kind": "header", "format": FORMAT, "run": run_id, "rank": rank, "world_size": world_size,
                "framework": f"jax {jax.__version__}", "started": time.time(), "unit": "example",
            }
        )  # fmt: skip

    def contribution(self, fields: dict[str, Any], numbers: Floats) -> None:
        """Takes a backward pass."""
        if self.ended:
            return
        ids = frozenset(fields["parameters"])
        self.queue.append(_Event({**fields, "id": self.contributions.total()}, numbers, ids))
        self.contributions[ids] += 1
        self._write()

    def step(self, fields: dict[str, Any], numbers: Floats) -> None:
        """Takes a call of an optimizer, and writes the one before it if that was a step."""
        if self.ended:
            return
        ids, optimizer = frozenset(fields["parameters"]), fields["optimizer"]
        if (before := self.calls.get(optimizer)) is not None:
            if any(self.latest[id] != optimizer for id in ids & self.latest.keys()):
                self.queue.clear()
                self._end([TWO_OPTIMIZERS])
                return
            before.is_step = before.fields["count"] != fields["count"]
            self._settle_replaced(optimizer, ids)
        else:
            replaced = [event.before for event in self.calls.values() if event.ids & ids]
            self.stepped[optimizer] = max(replaced, default=0)
        here = sum(count for theirs, count in self.contributions.items() if theirs & ids)
        self.calls[optimizer] = _Event(fields, numbers, ids, here)
        self.queue.append(self.calls[optimizer])
        self.latest |= dict.fromkeys(ids, optimizer)
        self._write()

    def finish(self, errors: list[str]) -> None:
        """Writes what waits."""
        if self.ended:
            return
        while self.queue and not self.ended:
            self._settle(self.queue[0])
            self._write()
        if not self.ended:
            self._end(errors)

    def parameters(self, names: tuple[str, ...], leaves: list[Any]) -> list[int]:
        """The numbers of the parameters; those that are new are told first."""
        for name, leaf in zip(names, leaves, strict=True):
            if name not in self.ids:
                self.ids[name] = len(self.ids)
                raw = leaf.size <= _RAW
                self.writer.write(
                    {
                        "kind": "parameter", "id": self.ids[name], "name": name, "shape": list(leaf.shape),
                        "dtype": str(leaf.dtype), "rows": leaf.size if raw else _COORDINATES + _SUMS,
                        "coordinates": leaf.size if raw else _COORDINATES,
                    }
                )  # fmt: skip
        return [self.ids[name] for name in names]

    def _settle_replaced(self, optimizer: int, ids: frozenset[int]) -> None:
        """Another optimizer of these parameters that is called no more: this one has taken its place."""
        for other, event in self.calls.items():
            if other != optimizer and event.ids & ids and event.is_step is None:
                self._settle(event)

    def _settle(self, event: _Event) -> None:
        """Decides of a last call: a step if its window was as long as one before it, or there is no other."""
        if event.fields["kind"] == "step" and event.is_step is None:
            known = self.windows.get(event.fields["optimizer"])
            event.is_step = known is None or self._window(event) in known

    def _window(self, event: _Event) -> int:
        return event.before - self.stepped[event.fields["optimizer"]]

    def _write(self) -> None:
        """Writes from the head of the queue what is known."""
        if len(self.queue) > _MOST_WAITING:
            self._settle(self.queue[0])
        while self.queue and not self.ended:
            event = self.queue[0]
            is_call = event.fields["kind"] == "step"
            if is_call and event.is_step is None:
                return
            self.queue.popleft()
            if not is_call or event.is_step:
                self.writer.write(event.fields, event.numbers)
            if is_call and event.is_step:
                self._count(event)

    def _count(self, event: _Event) -> None:
        optimizer = event.fields["optimizer"]
        self.windows.setdefault(optimizer, set()).add(self._window(event))
        self.stepped[optimizer] = event.before
        self.steps += 1
        if self.steps == self.limit:
            self._end([])

    def _end(self, errors: list[str]) -> None:
        self.ended = True
        self.writer.write(
            {"kind": "end", "parameters": [], "steps": self.steps, "errors": errors, "comm_hooks": []},
        )
        self.writer.close()
