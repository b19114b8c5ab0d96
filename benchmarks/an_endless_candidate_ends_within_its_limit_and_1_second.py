"""An endless candidate is ended within its limit of processor time and 1 second, however it is endless.

The limit is on processor time, so that a busy machine ends no candidate early: what is timed is the processor time of
its process, the interpreter's start included, and beside it the wall time, which a busy machine stretches.
"""

from __future__ import annotations

import contextlib
import sys
import time

from failuremap.score import Limits, Stopped
from failuremap.score.box import open_box
from support.runs import verdict

LIMITS = Limits(cpu_s=3)
BAR_S = LIMITS.cpu_s + 1.0
ENDLESS = {
    "in Python": "def solve(rows):\n    while True: pass",
    "in C": "def solve(rows): return 7 ** 10 ** 10",
    "deaf to exceptions": "def solve(rows):\n while 1:\n  try:\n   while 1: pass\n  except BaseException: pass",
}


def seconds_to_end(source: str) -> tuple[float, float]:
    """Run an endless candidate; return its processor time and the wall time."""
    began = time.perf_counter()
    with open_box(source.encode(), LIMITS) as box:
        with contextlib.suppress(Stopped):
            box.call(None)
        used_s = box.usage.cpu_s
    return used_s, time.perf_counter() - began


def main() -> int:
    """Print the figures; the return value is the exit code."""
    missed = 0
    for how, source in ENDLESS.items():
        used_s, wall_s = seconds_to_end(source)
        print(f"endless {how}: {used_s:.2f} s of processor time, {wall_s:.2f} s of wall time", flush=True)
        missed |= verdict(f"processor seconds to end a candidate endless {how}", used_s, BAR_S)
    return missed


if __name__ == "__main__":
    sys.exit(main())
