"""Verifying the catalogue takes at most 3 times what starting as many bare interpreters takes, in flat memory.

Bare is `python -I -S -c pass`, as many at once as verify runs. The two are timed in turns, one mechanism after
another, so that other work on the machine slows both. Memory is that of the verifying process: how much its peak grows
from the first mechanisms to all of them.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from failuremap.catalogue import mechanisms, verify
from failuremap.catalogue.verify import at_once
from support.runs import verdict

RATIO_BAR = 3.0
GROWTH_BAR_MIB = 8.0
WARM_UP = 3


def bare_seconds(count: int) -> float:
    """Start this many bare interpreters and return the wall time."""
    started = time.perf_counter()
    with ThreadPoolExecutor(at_once()) as pool:
        list(pool.map(lambda _: subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True), range(count)))
    return time.perf_counter() - started


def verify_seconds(slug: str) -> tuple[float, int]:
    """Verify one mechanism; return the wall time and how many scripts were run."""
    started = time.perf_counter()
    results = verify([slug])
    wrong = [result for result in results if not result.holds]
    assert not wrong, wrong[0]
    return time.perf_counter() - started, len(results)


def peak_mib() -> float:
    """Return the peak of this process's resident memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> int:
    """Print both figures; the return value is the exit code."""
    slugs = [slug for slug, entry in mechanisms().items() if entry.stages]
    for slug in slugs[:WARM_UP]:
        verify_seconds(slug)
    peak, bare, verified, count = peak_mib(), 0.0, 0.0, 0
    for slug in slugs:
        seconds, script_count = verify_seconds(slug)
        verified, count, bare = verified + seconds, count + script_count, bare + bare_seconds(script_count)
    print(f"{count} scripts, {at_once()} at once: verify {verified:.1f} s, bare {bare:.1f} s", flush=True)
    growth = peak_mib() - peak
    return verdict("verify over bare interpreters", verified / bare, RATIO_BAR) | verdict(
        "growth of the peak memory in MiB", growth, GROWTH_BAR_MIB
    )


if __name__ == "__main__":
    sys.exit(main())
