"""Fitting 8 contributions of 50M float32 from files takes at most 1.1 times reading them; sampled a fraction of it.

Reading is every byte of the nine files into one buffer of a few MiB. Cold: the files' pages are dropped before (the
kernel is asked to; it does for files that are on the disk). Judged are medians: warm of CPU time, which counts no other
program; cold of the clock.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from failuremap.audit.fitting.gradient_files import fit_files
from support.runs import verdict

CONTRIBUTIONS = 8
BARS = {("full", "warm"): 1.1, ("sampled", "warm"): 0.2, ("sampled", "cold"): 0.07}


def write(folder: Path, size: int) -> list[Path]:
    """Write the contributions and their mean, all on the disk."""
    generator, total = np.random.default_rng(0), np.zeros(size, dtype=np.float32)
    paths = [folder / f"{k}.npy" for k in range(CONTRIBUTIONS + 1)]
    for path in paths[:-1]:
        gradient = generator.standard_normal(size, dtype=np.float32)
        total += gradient / CONTRIBUTIONS
        np.save(path, gradient)
    np.save(paths[-1], total)
    os.sync()
    return paths


def read(paths: list[Path]) -> None:
    """Read every byte."""
    buffer = memoryview(bytearray(1 << 22))
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def drop(paths: list[Path]) -> None:
    """Drop the files from the kernel's cache."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def seconds(do: Callable[[], object], state: str, paths: list[Path]) -> float:
    """Time one call, by the clock or by CPU time."""
    if state == "cold":
        drop(paths)
    clock = time.perf_counter if state == "cold" else time.process_time
    started = clock()
    do()
    return clock() - started


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=50_000_000)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        paths = write(Path(folder), options.size)
        jobs: dict[str, Callable[[], object]] = {
            "read": lambda: read(paths),
            "full": lambda: fit_files(paths[-1], paths[:-1]),
            "sampled": lambda: fit_files(paths[-1], paths[:-1], sampled=True),
        }
        read(paths)
        taken: dict[tuple[str, str], list[float]] = {(job, state): [] for state in ("warm", "cold") for job in jobs}
        for state in ("warm", "cold"):
            for _ in range(options.turns):
                for job, do in jobs.items():
                    taken[job, state].append(seconds(do, state, paths))
    for (job, state), times in taken.items():
        print(f"{job:8}{state:6}{median(times):8.3f} s   {median(times) / median(taken['read', state]):.3f} of reading")
    missed = [
        verdict(f"{job}, {state}, over reading", median(taken[job, state]) / median(taken["read", state]), bar)
        for (job, state), bar in BARS.items()
    ]
    sys.exit(any(missed))
