"""What the audit's own code takes of the CPU time of a job's steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from support.runs import run

JOB = Path(__file__).parents[1] / "jobs" / "own_time.py"


def own_steps(args: Sequence[str]) -> list[dict[str, Any]]:
    """Run the job that times the audit's entries; return the steps of both ranks, without the first."""
    job = run(args, audited=False, script=JOB)
    return [step for rank in job.ranks for step in rank["steps"][1:]]


def own_share(steps: Sequence[dict[str, Any]]) -> float:
    """The median of what the audit's own code takes, over the rest of the step."""
    return median(step["own"] / (step["cpu"] - step["own"]) for step in steps)
