"""Runs the benchmark's training script, plain or audited, and reads what its ranks measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

SCRIPT = Path(__file__).parents[1] / "jobs" / "transformer.py"
RANK_COUNT = 2
# the first steps fill caches and allocate
WARM_UP = 4


@dataclass(frozen=True)
class Run:
    """One job that has ended."""

    ranks: list[dict[str, Any]]
    seconds_to_verdict: float
    """From the end of the script in its last rank to the end of the command."""

    @property
    def peak_mib(self) -> float:
        """Resident memory of the largest rank, at its peak."""
        return max(float(rank["peak_mib"]) for rank in self.ranks)

    def seconds(self, clock: str, on: bool | None = None) -> list[float]:
        """What each step took, warm-up left out.

        Args:
            clock: "wall", of the slowest rank; or "cpu", of all ranks together.
            on: Only steps with the audit switched on, or only those with it off; None: all.
        """
        combine = max if clock == "wall" else sum
        steps = list(zip(*(rank["steps"] for rank in self.ranks), strict=True))[WARM_UP:]
        return [combine(part[clock] for part in step) for step in steps if on is None or step[0]["on"] is on]


def run(args: Sequence[str], *, audited: bool, trace: Path | None = None, script: Path = SCRIPT, every: int = 1) -> Run:
    """Run a script on two ranks with these arguments.

    Args:
        args: For the script.
        audited: Under `failuremap audit`, else under torchrun.
        trace: An empty or absent folder in which the trace is kept.
        every: All parameters are read at two steps of so many, and at the first 8; 1: at every step.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        line = [*command(audited, trace, every), str(script), *args, "--out", f"{folder}/out"]
        done = subprocess.run(line, capture_output=True, text=True, env=plain_environment(), check=False)
        ended = time.time()
        paths = [Path(folder) / f"out.{rank}.json" for rank in range(RANK_COUNT)]
        # an audit's exit code is its verdict; 2 and 4 say that the script did not run to its end
        if done.returncode not in ((0, 1, 3) if audited else (0,)) or not all(path.exists() for path in paths):
            sys.exit(f"{' '.join(line)}: exit code {done.returncode}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}")
        ranks = [json.loads(path.read_text()) for path in paths]
    return Run(ranks, ended - max(rank["ended"] for rank in ranks))


def plain_environment() -> dict[str, str]:
    """The environment as a user has it: `make` limits the threads of what it starts, a shell does not."""
    return {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}


def command(audited: bool, trace: Path | None = None, every: int = 1) -> list[str]:
    """What starts a script on two ranks; the arguments are those of `run`."""
    if not audited:
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANK_COUNT)]
    kept = ["--trace", str(trace)] if trace else []
    return [sys.executable, "-m", "failuremap", "audit", "--nproc", str(RANK_COUNT), "--every", str(every), *kept, "--"]


def ratio(on: Sequence[float], off: Sequence[float]) -> float:
    """The median with over the median without: the audit, or `attach`."""
    return median(on) / median(off)


def verdict(what: str, measured: float, bar: float) -> int:
    """Print whether a figure is within its bar; the return value is the exit code."""
    print(f"{'ok' if measured <= bar else 'MISSED'}: {what} {measured:.4f}, bar {bar:g}")
    return int(measured > bar)
