"""A candidate without an end is ended at most 1 s past its limit: of processor time where it computes, else of waiting.

The limit is for all fixtures together. How long a busy machine takes to give a candidate its seconds of processor time
says nothing of the judge: judged is what the candidate used, and, where it waits, how long the verdict took.
"""

from __future__ import annotations

import sys
import time

from failuremap.score import Limits, judge
from support.runs import verdict

BAR = 1.0
CASE = "FM-002"
LIMITS = Limits(cpu_s=2)

COMPUTES = {
    "loops": "def solve(parts):\n    while True: pass\n",
    "loops as it is loaded": "while True: pass\n",
    "catches all": "def solve(parts):\n    while True:\n        try:\n            while True: pass\n"
    "        except BaseException: pass\n",
    "one long call": "def solve(parts):\n    return sum(range(10**15))\n",
    "is slow on each fixture": "def solve(parts):\n    for _ in range(3 * 10**6): pass\n"
    "    return [sum(c) for c in zip(*parts)]\n",
}
WAITS = {
    "waits for a lock": "import _thread\ndef solve(parts):\n    lock = _thread.allocate_lock()\n    lock.acquire()\n"
    "    lock.acquire()\n",
}


def overrun(name: str, source: str, *, waits: bool) -> float:
    """Judge a candidate and return how many seconds it went past its limit."""
    started = time.perf_counter()
    found = judge(source.encode(), CASE, limits=LIMITS)
    wall = time.perf_counter() - started
    assert found.outcome == "timeout", (name, found.sentence)
    print(f"{name:24} {found.usage.cpu_s:5.2f} s of processor time, {wall:5.2f} s in all", flush=True)
    return wall - LIMITS.wall_s if waits else found.usage.cpu_s - LIMITS.cpu_s


def main() -> int:
    """Print the figures; the return value is the exit code."""
    worst = max(overrun(name, source, waits=False) for name, source in COMPUTES.items())
    longest = max(overrun(name, source, waits=True) for name, source in WAITS.items())
    return verdict("seconds past the limit, computing", worst, BAR) | verdict(
        "seconds past the limit, waiting", longest, BAR
    )


if __name__ == "__main__":
    sys.exit(main())
