"""Runs the calls of a test on the ranks of a real MPI job."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

JOBS = Path(__file__).parents[1] / "jobs"
# Open MPI refuses root without the first two, more ranks than cores without the third.
ALLOWED = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",  # ranks that wait leave the core to those that work
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def mpirun(script: Path | str, *args: str, rank_count: int, timeout: float = 120) -> str:
    """Run a script in one process for each rank and return what they print; it must end well, and in time."""
    program = shutil.which("mpirun", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    assert program, "the marker `mpi` asks for it"
    command = [program, "-np", str(rank_count), sys.executable, str(script), *args]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ALLOWED}, timeout=timeout)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def outcomes_of(calls: Sequence[Sequence[dict[str, Any]]]) -> list[list[Any]]:
    """Return for each call what every rank got; a call has the arguments of each rank."""
    with tempfile.TemporaryDirectory(prefix="mpi-") as folder:
        path = Path(folder) / "calls.json"
        path.write_text(json.dumps(calls), encoding="utf-8")
        rank_count = len(calls[0])
        mpirun(JOBS / "mpi_calls.py", str(path), rank_count=rank_count)
        by_rank = [json.loads(Path(f"{path}.{rank}").read_text(encoding="utf-8")) for rank in range(rank_count)]
    return [list(each) for each in zip(*by_rank, strict=True)]
