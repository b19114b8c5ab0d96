"""Writes the traces of a JAX job: one for each device of this process, from the callbacks of `jax_hooks`."""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.trace import FORMAT, TraceWriter, trace_path

_RAW, _COORDINATES, _SUMS = 128, 64, 64
_DONE = np.int32(0)
Floats = NDArray[np.float32]


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


class Device:
    """The trace of one device.

    A step is held back until the next: optax.MultiSteps calls the optimizer at every micro-batch, and lets its count
    advance only where the window is full. What came with a count that did not advance was no step.
    """

    def __init__(self, folder: Path, run_id: str, rank: int, world_size: int, limit: int | None = None) -> None:
        import jax

        self.limit, self.ended = limit, False
        self.writer = TraceWriter(trace_path(folder, rank))
        self.ids: dict[str, int] = {}
        self.contributions, self.steps, self.windows = 0, 0, set[int]()
        self.held: tuple[dict[str, Any], Floats] | None = None
        self.since: list[tuple[dict[str, Any], Floats]] = []
        self.window = 0
        self.writer.write(
            {
                "kind": "header", "format": FORMAT, "run": run_id, "rank": rank, "world_size": world_size,
                "framework": f"jax {jax.__version__}", "started": time.time(), "unit": "example",
            }
        )  # fmt: skip

    def contribution(self, fields: dict[str, Any], numbers: Floats) -> None:
        """Takes a backward pass, which is written behind the step that is held."""
        if self.ended:
            return
        self.since.append(({**fields, "id": self.contributions}, numbers))
        self.contributions += 1

    def step(self, fields: dict[str, Any], numbers: Floats) -> None:
        """Takes a step, and writes the one before it if that was one."""
        if self.ended:
            return
        if self.held is not None and self.held[0]["count"] != fields["count"]:
            self._write_held()
            if self.steps == self.limit:
                self._end([])
                return
        self._write_contributions()
        self.held = (fields, numbers)

    def finish(self, errors: list[str]) -> None:
        """Writes what is held; the last step only if its window was as long as one before it, or there is no other."""
        if self.ended:
            return
        if self.held is not None and (not self.windows or self.window in self.windows):
            self._write_held()
        self._write_contributions()
        self._end(errors)

    def _end(self, errors: list[str]) -> None:
        self.ended = True
        self.writer.write(
            {"kind": "end", "parameters": [], "steps": self.steps, "errors": errors, "comm_hooks": []},
        )
        self.writer.close()

    def _write_held(self) -> None:
        assert self.held is not None
        self.writer.write(*self.held)
        self.windows.add(self.window)
        self.held, self.window = None, 0
        self.steps += 1

    def _write_contributions(self) -> None:
        for fields, numbers in self.since:
            self.writer.write(fields, numbers)
        self.window += len(self.since)
        self.since = []

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


class JaxRecorder:
    """All devices of this process."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self.folder, self.run_id = folder, run_id
        self.limit = int(os.environ.get("FAILUREMAP_STEPS") or 0) or None
        self.lock = threading.Lock()
        self.devices: dict[int, Device] = {}
        self.errors: list[str] = []
        self.names: set[str] = set()
        self.alone = False
        """Whether a line was traced that makes a rank of this process."""

    def said(self, names: tuple[str, ...], axis: Any) -> None:
        """Takes the leaves that are contributed, and whether each process is a rank, while JAX traces."""
        self.names.update(names)
        self.alone = self.alone or axis is None

    def contribution(
        self, names: tuple[str, ...], world: int, rank: Any, leaves: list[Any], count: Any, weight: Any
    ) -> Any:
        """Writes down the local gradients of one backward pass."""
        try:
            with self.lock:
                device = self._device(int(rank), world)
                loss = {
                    "function": "contribution", "site": "contribution", "reduction": "sum",
                    "count": float(count), "scale": float(weight),
                }  # fmt: skip
                fields = {
                    "kind": "backward", "via": "told", "parameters": device.parameters(names, leaves), "kept": [],
                    "altered": [], "losses": [loss], "counts": [], "unseen": [], "path": {},
                }  # fmt: skip
                device.contribution(fields, np.concatenate([sketch(leaf) for leaf in leaves]))
        except Exception as error:
            self._note("contribution", error)
        return _DONE

    def step(
        self, names: tuple[str, ...], world: int, rank: Any, leaves: list[Any], weights: list[Any], count: Any
    ) -> Any:
        """Writes down the gradients that an optimizer is given, and the weights that it steps from."""
        try:
            with self.lock:
                device = self._device(int(rank), world)
                given = len(weights) == len(leaves)
                known = [sketch(each) for each in weights] if given else [unknown(each) for each in leaves]
                length = float(np.sqrt(sum(float(np.square(np.asarray(x, np.float64)).sum()) for x in leaves)))
                fields = {
                    "kind": "step", "optimizer": 0, "count": int(count), "weights": "sketch", "norm": length,
                    "parameters": device.parameters(names, leaves), "absent": [], "unwatched": [],
                }  # fmt: skip
                device.step(fields, np.concatenate([*map(sketch, leaves), *known]))
        except Exception as error:
            self._note("watched", error)
        return _DONE

    def _device(self, rank: int, world: int) -> Device:
        if rank not in self.devices:
            self.devices[rank] = Device(self.folder, self.run_id, rank, world, self.limit)
        return self.devices[rank]

    def _tell_idle(self, rank: int, world: int) -> None:
        self._device(rank, world)
        self.errors.append(
            f"contribution: process {rank} ran no step of its own, as where all processes run one step under jax.jit "
            "together; say axis=() there, in contribution() and in watched()"
        )

    def _note(self, where: str, error: Exception) -> None:
        if len(self.errors) < 20:
            self.errors.append(f"{where}: {type(error).__name__}: {error}"[:300])

    def finish(self) -> None:
        """Ends the traces, when all that was started has run."""
        import jax

        try:
            jax.effects_barrier()
            if self.alone and not self.devices:
                self._tell_idle(jax.process_index(), jax.process_count())
            for device in self.devices.values():
                device.finish(self.errors)
        except Exception as error:  # at exit nobody is left to tell; the missing end record says it
            self._note("finish", error)


_recorders: dict[int, JaxRecorder] = {}


def current() -> JaxRecorder:
    """The recorder of this process."""
    pid = os.getpid()
    if pid not in _recorders:
        folder = Path(os.environ["FAILUREMAP_TRACE_DIR"])
        _recorders[pid] = JaxRecorder(folder, os.environ.get("FAILUREMAP_RUN_ID", ""))
        atexit.register(finish)
    return _recorders[pid]


def finish() -> None:
    """Ends the traces of this process's devices, where there are any; its end does the same."""
    recorder = _recorders.pop(os.getpid(), None)
    if recorder is not None:
        recorder.finish()
