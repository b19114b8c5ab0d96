"""Capture: what one process of a job does with its gradients, written to a trace. Changes nothing in the job."""

from __future__ import annotations

import atexit
import multiprocessing.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from failuremap.audit.capture.recorder import Recorder

current: Recorder | None = None


def install() -> None:
    """Starts capture in this process, if the environment names a trace folder; needs torch to be importable.

    Reads FAILUREMAP_TRACE_DIR (an existing folder), FAILUREMAP_RUN_ID, FAILUREMAP_STEPS (optimizer steps to record),
    FAILUREMAP_EVERY (two windows of so many are read in full; see sampling.py) and FAILUREMAP_REFERENCE (what is kept
    of the first windows; see keeping.py).
    """
    folder = os.environ.get("FAILUREMAP_TRACE_DIR")
    if current is not None or not folder:
        return
    from failuremap.audit.capture.notices import Notices
    from failuremap.audit.capture.recorder import Recorder
    from failuremap.audit.capture.sampling import EVERY

    steps, every = os.environ.get("FAILUREMAP_STEPS"), int(os.environ.get("FAILUREMAP_EVERY") or EVERY)
    recorder = Recorder(Path(folder), os.environ.get("FAILUREMAP_RUN_ID", ""), int(steps) if steps else None, every)
    if os.environ.get("FAILUREMAP_STOP_ON_WRONG"):
        recorder.notices = Notices(stop=True, logs=[])
    if (wanted := os.environ.get("FAILUREMAP_REFERENCE")) is not None:
        from failuremap.audit.capture.keeping import Keeping

        recorder.keeping = Keeping(recorder, wanted.split(","))
    start(recorder)


def start(recorder: Recorder) -> None:
    """Starts capture in this process with a recorder; there must be none yet."""
    global current
    from failuremap.audit.capture import collectives, data_parallel, functional, optimizers, received, stages
    from failuremap.audit.capture.held import (
        deepspeed,
        deepspeed_engine,
        flattened,
        parameters,
        scalers,
        sharded,
        swapping,
    )
    from failuremap.audit.capture.loss import functions, graph, losses

    current = recorder
    reduction = (
        data_parallel,
        sharded,
        flattened,
        deepspeed,
        deepspeed_engine,
        stages,
        swapping,
        collectives,
        received,
        functional,
    )
    for part in (parameters, optimizers, scalers, losses, functions, graph, *reduction):
        part.install(current)
    os.register_at_fork(after_in_child=current.after_fork)
    atexit.register(finish)
    # children of multiprocessing leave by os._exit: they run its finalizers, and no atexit
    multiprocessing.util.Finalize(None, finish, exitpriority=100)
    multiprocessing.util.register_after_fork(
        current, lambda _: multiprocessing.util.Finalize(None, finish, exitpriority=100)
    )


def finish() -> None:
    """Ends this process's trace; further calls do nothing."""
    if current is not None:
        from failuremap.audit.capture import collectives, frameworks, optimizers

        frameworks.tell(current)
        optimizers.tell(current)
        current.finish()
        collectives.restore()
