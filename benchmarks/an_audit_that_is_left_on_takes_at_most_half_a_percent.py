"""An audit that is left on, as it is by default, takes at most 0.5 % of a job's CPU time.

50M-parameter transformer, 1,024 tokens a step, one thread. Two windows of 64 are read in full and the others in part;
what each kind takes is measured apart, as the CPU time inside the audit's own entries over that of the rest of the
step. That leaves out what it costs the job's own code that the audit has used the caches between.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from support.runs import plain_environment, verdict

JOB = Path(__file__).parent / "jobs" / "own_time.py"
EVERY, IN_FULL = 64, 2
BAR = 1.005


def share(steps: list[dict[str, float]]) -> float:
    """What the audit adds to a step of these."""
    return median(step["own"] / (step["cpu"] - step["own"]) for step in steps)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("tiny", "10m", "50m"), default="50m")
    parser.add_argument("--steps", type=int, default=14)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        out = Path(folder) / "steps.json"
        command = [sys.executable, str(JOB), "--size", options.size, "--steps", str(options.steps), "--out", str(out)]
        subprocess.run(command, env=plain_environment(), check=True)
        taken = json.loads(out.read_text())[1:]
    parts = {kind: [step for step in taken if step["in_part"] is kind] for kind in (False, True)}
    full, part = share(parts[False]), share(parts[True])
    print(f"in full {100 * full:.2f} % of {len(parts[False])} steps, in part {100 * part:.3f} % of {len(parts[True])}")
    left_on = 1 + (IN_FULL * full + (EVERY - IN_FULL) * part) / EVERY
    sys.exit(verdict("CPU time of a job with the audit left on over that without", left_on, BAR))
