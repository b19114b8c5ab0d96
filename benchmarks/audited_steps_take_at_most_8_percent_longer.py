"""A training step takes at most 8 % longer where the audit records every step.

10M-parameter transformer, 1,024 tokens a rank, DDP (or fully_shard) on two ranks, one thread each. Measured twice:
steps with and without the audit in turn, inside one pair of processes; and whole jobs, without, with, without, with.
Judged is the CPU time of the first: neighbouring steps of one process share their surroundings, and CPU time counts no
other program.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median

from support.runs import Run, ratio, run, verdict

BAR = 1.08
IN_TURN = 2


def in_turn(size: str, steps: int, wrap: str) -> float:
    """Compare neighbouring steps of one job and print both clocks; the return value is the ratio of CPU times."""
    job = run(["--size", size, "--wrap", wrap, "--steps", str(steps), "--toggle", str(IN_TURN)], audited=True)
    print(f"{job.ranks[0]['elements']:,} parameters in {job.ranks[0]['tensors']} tensors")
    print(f"{'':30}{'without':>10}{'with':>10}{'ratio':>8}")
    for clock in ("wall", "cpu"):
        _row(f"{clock}, steps in turn", job.seconds(clock, on=False), job.seconds(clock, on=True))
    return ratio(job.seconds("cpu", on=True), job.seconds("cpu", on=False))


def whole_jobs(size: str, steps: int, wrap: str) -> None:
    """Compare jobs that run one after the other and print both clocks."""
    jobs: dict[bool, list[Run]] = {False: [], True: []}
    for audited in (False, True, False, True):
        jobs[audited].append(run(["--size", size, "--wrap", wrap, "--steps", str(steps)], audited=audited))
    for clock in ("wall", "cpu"):
        plain, audited_ = ([s for job in jobs[audited] for s in job.seconds(clock)] for audited in (False, True))
        _row(f"{clock}, jobs in turn", plain, audited_)


def _row(label: str, plain: list[float], audited: list[float]) -> None:
    times = f"{1e3 * median(plain):7.0f} ms{1e3 * median(audited):7.0f} ms"
    print(
        f"{label:30}{times}{ratio(audited, plain):8.3f}   medians of {len(plain)} and {len(audited)} steps", flush=True
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("10m", "50m"), default="10m")
    parser.add_argument("--wrap", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--steps", type=int, default=64)
    options = parser.parse_args()
    measured = in_turn(options.size, options.steps, options.wrap)
    whole_jobs(options.size, options.steps // 4, options.wrap)
    sys.exit(verdict("CPU time of an audited step over that of a plain one", measured, BAR))
