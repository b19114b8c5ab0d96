"""Compares steps of an attached model with those of its wrapper alone, taken in turn in one job."""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from support.runs import ratio, run, verdict

SCRIPT = Path(__file__).parents[1] / "jobs" / "attached.py"


def compare(wrapper: str, bar: float, description: str | None) -> int:
    """Print both clocks and judge the CPU time; the return value is the exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("10m", "50m"), default="10m")
    parser.add_argument("--steps", type=int, default=64)
    options = parser.parse_args()
    args = ["--wrap", wrapper, "--size", options.size, "--steps", str(options.steps)]
    job = run(args, audited=False, script=SCRIPT)
    print(f"{job.ranks[0]['elements']:,} parameters in {job.ranks[0]['tensors']} tensors, {wrapper} on two ranks")
    print(f"{'':24}{'without':>10}{'attached':>10}{'ratio':>8}")
    for clock in ("wall", "cpu"):
        plain, attached = job.seconds(clock, on=False), job.seconds(clock, on=True)
        times = f"{1e3 * median(plain):7.0f} ms{1e3 * median(attached):7.0f} ms"
        print(f"{clock + ', steps in turn':24}{times}{ratio(attached, plain):8.3f}   medians of {len(plain)} steps")
    measured = ratio(job.seconds("cpu", on=True), job.seconds("cpu", on=False))
    return verdict("CPU time of an attached step over that of the wrapper alone", measured, bar)
