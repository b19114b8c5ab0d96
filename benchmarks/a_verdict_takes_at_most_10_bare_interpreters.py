"""One verdict takes at most 10 times what starting a bare interpreter takes, box and all fixtures included.

Bare is `python -I -S -c pass`. The two are timed in turns, so that other work on the machine slows both; judged is the
median over the repairs of all families, as a person hands one in after the other.
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

from failuremap.catalogue import mechanisms
from failuremap.score import judge
from failuremap.score.forms import candidate_of
from support.runs import verdict

BAR = 10.0
WARM_UP = 3
BARE_PER_VERDICT = 3


def bare_seconds() -> float:
    """Start a bare interpreter and return the wall time."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
    return time.perf_counter() - started


def verdict_seconds(slug: str, source: bytes) -> float:
    """Judge a repair and return the wall time."""
    started = time.perf_counter()
    found = judge(source, slug)
    seconds = time.perf_counter() - started
    assert found.accepted, found.sentence
    return seconds


def main() -> int:
    """Print both figures; the return value is the exit code."""
    repairs = {entry.slug: candidate_of(entry).encode() for entry in mechanisms().values() if entry.stages}
    for slug in list(repairs)[:WARM_UP]:
        verdict_seconds(slug, repairs[slug])
    bare, judged = [], []
    for slug, source in repairs.items():
        bare += [bare_seconds() for _ in range(BARE_PER_VERDICT)]
        judged.append(verdict_seconds(slug, source))
    slowest = max(zip(judged, repairs, strict=True))
    print(
        f"bare {median(bare) * 1000:.0f} ms, a verdict {median(judged) * 1000:.0f} ms, slowest {slowest[1]} "
        f"{slowest[0] * 1000:.0f} ms",
        flush=True,
    )
    return verdict("a verdict over a bare interpreter", median(judged) / median(bare), BAR)


if __name__ == "__main__":
    sys.exit(main())
