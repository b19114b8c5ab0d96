"""An audit that is left on, as it is by default, takes at most 0.5 % of a job's CPU time.

50M-parameter transformer, 1,024 tokens a rank, DDP on two ranks, one thread each. Two windows of 64 are read in full
and the others in part; what each kind takes is measured apart, twice. Judged is the CPU time inside the audit's own
entries over that of the rest of the step. Beside it a plain and an audited job take steps in turn: that has all in it,
such as what the audit leaves in the caches, and more noise. It must not say for sure that more than the bar is taken.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median

from support.own import own_share, own_steps
from support.runs import verdict
from support.turns import pairs, standard_error

EVERY, IN_FULL = 64, 2
# steps at the start, all of which are read in full
FIRST = 8
BAR = 1.005


def left_on(full: float, part: float) -> float:
    """The share of the whole, from those of windows read in full and in part."""
    return (IN_FULL * full + (EVERY - IN_FULL) * part) / EVERY


def left_on_share(size: str, steps: int) -> float:
    """Measure what the audit's own code takes; print it for each kind of window."""
    taken = own_steps(["--size", size, "--steps", str(steps), "--every", str(EVERY)])
    kinds = [[step for step in taken if step["in_part"] is kind] for kind in (False, True)]
    full, part = map(own_share, kinds)
    print(
        f"own code: in full {100 * full:.2f} % of {len(kinds[0])} steps, in part {100 * part:.3f} % of {len(kinds[1])}"
    )
    return left_on(full, part)


def whole_share(size: str, steps: int, seconds: float) -> tuple[float, float]:
    """Measure jobs that step in turn; return what is taken in all, and its standard error."""
    ratios = pairs(["--size", size], steps, seconds, every=EVERY).ratios("cpu", skipped=1)
    full, part = ratios[: FIRST - 1], ratios[FIRST - 1 :]
    share, error = left_on(median(full) - 1, median(part) - 1), left_on(standard_error(full), standard_error(part))
    print(f"in turn: in full {median(full):.4f} of {len(full)} pairs, in part {median(part):.4f} of {len(part)}")
    print(f"in turn: {1 + share:.4f} in all, standard error {error:.4f}", flush=True)
    return share, error


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("tiny", "10m", "50m"), default="50m")
    parser.add_argument("--own-steps", type=int, default=14)
    parser.add_argument("--steps", type=int, default=EVERY)
    parser.add_argument("--seconds", type=float, default=110, help="for the steps in turn")
    options = parser.parse_args()
    share, error = whole_share(options.size, options.steps, options.seconds)
    own = left_on_share(options.size, options.own_steps)
    missed = verdict("own CPU time of an audit left on, over that of the job", 1 + own, BAR)
    sys.exit(missed or verdict("what two jobs in turn say at least", 1 + share - 2 * error, BAR))
