"""The verdict on 100 steps of two ranks comes at most 3 s after the script's end.

100 tensors, windows of 1 and of 4 micro-batches. Two waits: from the script's last line to the end of the command
`failuremap audit` (the ranks' own exit included), and `failuremap diagnose` on the kept trace, interpreter start
included. Judged is the longer; where a machine does other work, the CPU time tells how much was waiting.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.runs import plain_environment, run, verdict

BAR = 3.0
STEPS = 100
REPEATS = 3


def diagnose(trace: Path) -> tuple[float, float]:
    """Run `failuremap diagnose` and return its wall and CPU seconds."""
    before, started = os.times(), time.perf_counter()
    command = [sys.executable, "-m", "failuremap", "diagnose", str(trace)]
    done = subprocess.run(command, capture_output=True, env=plain_environment(), check=False)
    wall, after = time.perf_counter() - started, os.times()
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu


def seconds_to_verdict(window: int) -> float:
    """Print both waits for windows of this many micro-batches and return the longer."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        trace = Path(folder) / "trace"
        size = f"--size tiny --batch 2 --length 32 --steps {STEPS} --accum {window}".split()
        job = run(size, audited=True, trace=trace)
        mib = sum(path.stat().st_size for path in trace.glob("*.trace")) / 2**20
        wall, cpu = min(diagnose(trace) for _ in range(REPEATS))
    print(f"{window} micro-batches, {job.ranks[0]['tensors']} tensors, trace {mib:.0f} MiB", flush=True)
    print(f"  script's end to verdict  {job.seconds_to_verdict:6.2f} s")
    print(f"  failuremap diagnose      {wall:6.2f} s   CPU {cpu:.2f} s, best of {REPEATS}", flush=True)
    return max(wall, job.seconds_to_verdict)


if __name__ == "__main__":
    sys.exit(verdict("seconds from the script's end to the verdict", max(map(seconds_to_verdict, (1, 4))), BAR))
