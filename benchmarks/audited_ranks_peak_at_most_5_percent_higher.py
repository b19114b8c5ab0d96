"""A rank's peak memory is at most 5 % higher under the audit: nothing of the model's size is held.

The transformer of the step-time benchmark on two ranks; several jobs without and with the audit. Judged is the smallest
peak of each kind: what an allocator keeps beyond its need varies from run to run, and only upwards.
One gradient of all parameters held is 40 MiB, 5.2 %.
"""

from __future__ import annotations

import argparse
import sys

from support.runs import run, verdict

BAR = 1.05
STEPS = 6


def peaks(size: str, audited: bool, count: int) -> list[float]:
    """Peak resident memory of the largest rank, MiB, one a job."""
    found = [run(["--size", size, "--steps", str(STEPS)], audited=audited).peak_mib for _ in range(count)]
    label = "with the audit" if audited else "without"
    print(f"{label:16}{min(found):8.0f} MiB   of {', '.join(f'{peak:.0f}' for peak in found)}", flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("10m", "50m"), default="10m")
    parser.add_argument("--jobs", type=int, default=3, help="of each kind")
    options = parser.parse_args()
    plain = peaks(options.size, False, options.jobs)
    audited = peaks(options.size, True, options.jobs)
    sys.exit(verdict("peak memory of an audited rank over that of a plain one", min(audited) / min(plain), BAR))
