"""Measures in three ways what a step takes more where the audit reads it whole."""

from __future__ import annotations

import argparse
from statistics import median

from support.own import own_share, own_steps
from support.runs import verdict
from support.turns import PLAIN, pairs, standard_error

# sequences of a rank, in place of 16, where a step is to be short
SHORT = 2
OWN_STEPS = 9


def compare(wrapper: str, size: str, bar: float, description: str | None) -> int:
    """Print what an audited step takes more, and judge it; the return value is the exit code.

    The audit's own code is counted by itself. Two jobs in turn have all in it, and in the few steps that fit into the
    time much of the machine: they must not say for sure that more is taken than the bar. The audit takes as much of a
    step over few tokens, of which more fit.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("tiny", "10m", "50m"), default=size)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--seconds", type=float, default=80, help="for the steps, and again for the shorter ones")
    options = parser.parse_args()
    args = ["--size", options.size, "--wrap", wrapper]
    whole = pairs(args, options.steps, options.seconds)
    whole.show()
    more = pairs([*args, "--batch", str(SHORT)], options.steps, options.seconds).differences("cpu")
    ratios, missed = whole.ratios("cpu"), _own(args, bar)
    missed |= _shorter(more, median(whole.seconds(PLAIN, "cpu")), bar)
    least = median(ratios) - 2 * standard_error(ratios)
    return missed | verdict(f"what {len(ratios)} pairs of whole steps say at least", least, bar)


def _own(args: list[str], bar: float) -> int:
    """Judge what the audit's own code takes."""
    steps = own_steps([*args, "--steps", str(OWN_STEPS), "--every", "1"])
    print(f"own code: {1e3 * median(step['own'] for step in steps):.1f} ms a rank and step")
    return verdict("own CPU time of the audit, over that of the rest of a step", 1 + own_share(steps), bar)


def _shorter(more: list[float], step: float, bar: float) -> int:
    """Judge what shorter steps take more, in seconds of both ranks, against a whole step."""
    extra, error = median(more), standard_error(more)
    print(
        f"{len(more)} pairs of steps of {SHORT} sequences: {1e3 * extra:.1f} ms more, error {1e3 * error:.1f},", end=" "
    )
    print(f"which is {100 * error / step:.2f} % of a whole step")
    return verdict("what shorter steps take more, over a whole one", 1 + extra / step, bar)
