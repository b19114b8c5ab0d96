"""Writes the traces of a JAX job: one for each device of this process, from the callbacks of `jax_hooks`."""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from failuremap.audit.capture.jax.jax_device import Device, sketch, unknown

_DONE = np.int32(0)


class Line(NamedTuple):
    """What is known of a line while JAX traces it."""

    names: tuple[str, ...]
    """Of the leaves."""
    world: int
    """Number of ranks."""
    optimizer: int = 0


class JaxRecorder:
    """All devices of this process."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self.folder, self.run_id = folder, run_id
        self.limit = int(os.environ.get("FAILUREMAP_STEPS") or 0) or None
        self.lock = threading.Lock()
        self.devices: dict[int, Device] = {}
        self.errors: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        """Of the leaves that are contributed, by name."""
        self.optimizers = 0
        self.alone = False
        """Whether a line was traced that makes a rank of this process."""

    def traced(self, shapes: dict[str, tuple[int, ...]], axis: Any) -> None:
        """Takes the leaves that are contributed, and whether each process is a rank, while JAX traces."""
        self.shapes |= shapes
        self.alone = self.alone or axis is None

    def new_optimizer(self) -> int:
        """Returns the number of an optimizer that is wrapped."""
        self.optimizers += 1
        return self.optimizers - 1

    def contribution(self, line: Line, rank: Any, leaves: list[Any], count: Any, weight: Any) -> Any:
        """Writes down the local gradients of one backward pass."""
        try:
            with self.lock:
                device = self._device(int(rank), line.world)
                loss = {
                    "function": "contribution", "site": "contribution", "reduction": "sum",
                    "count": float(count), "scale": float(weight),
                }  # fmt: skip
                fields = {
                    "kind": "backward", "via": "told", "parameters": device.parameters(line.names, leaves), "kept": [],
                    "altered": [], "losses": [loss], "counts": [], "unseen": [], "path": {},
                }  # fmt: skip
                device.contribution(fields, np.concatenate([sketch(leaf) for leaf in leaves]))
        except Exception as error:
            self._note("contribution", error)
        return _DONE

    def step(self, line: Line, rank: Any, leaves: list[Any], weights: list[Any], count: Any) -> Any:
        """Writes down the gradients that an optimizer is given, and the weights that it steps from."""
        try:
            with self.lock:
                device = self._device(int(rank), line.world)
                given = len(weights) == len(leaves)
                known = [sketch(each) for each in weights] if given else [unknown(each) for each in leaves]
                length = float(np.sqrt(sum(float(np.square(np.asarray(x, np.float64)).sum()) for x in leaves)))
                fields = {
                    "kind": "step", "optimizer": line.optimizer, "count": int(count), "weights": "sketch",
                    "norm": length, "parameters": device.parameters(line.names, leaves), "absent": [], "unwatched": [],
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
