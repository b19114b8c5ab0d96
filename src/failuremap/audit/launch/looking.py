"""Starts the process that looks at the traces of a job while it runs (audit/live.py)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_SOURCE = Path(__file__).parents[3]


def start(folder: Path, unit: str | None, promise: str) -> subprocess.Popen[bytes]:
    """Start a process that looks as long as this one lives, at the lowest priority; what it prints is in live.log."""
    command = [sys.executable, "-m", "failuremap.audit.live", str(folder), str(os.getpid()), unit or "", promise]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAILUREMAP_")}
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(_SOURCE)]))
    environment = {**kept, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with open(folder / "live.log", "ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )


@contextlib.contextmanager
def looking(folder: Path, unit: str | None, promise: str) -> Iterator[None]:
    """Look at a folder while the block runs."""
    process = start(folder, unit, promise)
    try:
        yield
    finally:
        process.terminate()
        process.wait()
