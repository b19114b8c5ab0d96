"""A rank's peak memory is at most 2 % higher under the audit: nothing of the model's size is held.

The transformer of the step-time benchmarks, 10M parameters, DDP on two ranks; several jobs without and with the audit,
in turn. Judged is the smallest peak of each kind: what an allocator keeps beyond its need varies from run to run, and
only upwards. One gradient of all parameters held is 40 MiB, 5 %.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median

from support.runs import run, verdict

BAR = 1.02
STEPS = 4

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("tiny", "10m", "50m"), default="10m")
    parser.add_argument("--wrap", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--jobs", type=int, default=4, help="of each kind")
    options = parser.parse_args()
    args = ["--size", options.size, "--wrap", options.wrap, "--steps", str(STEPS)]
    peaks: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(options.jobs):
        for audited in (False, True):
            peaks[audited].append(run(args, audited=audited).peak_mib)
    for audited, found in peaks.items():
        print(f"{'audited' if audited else 'plain':8}{min(found):8.1f} MiB   of {', '.join(f'{p:.1f}' for p in found)}")
    pairs = median(after / before for before, after in zip(peaks[False], peaks[True], strict=True))
    print(f"median of the pairs {pairs:.4f}")
    measured = min(peaks[True]) / min(peaks[False])
    sys.exit(verdict("peak memory of an audited rank over that of a plain one", measured, BAR))
