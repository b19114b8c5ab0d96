"""An Accumulator's memory is at most 2.5 times that of the gradient itself.

A float32 gradient, 16 micro-batches of 200 to 2000 tokens each; what Python's own account of memory grows by, the
accumulator's temporaries included.
"""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np

from failuremap import Accumulator
from support.arrays import options
from support.runs import verdict

BAR = 2.5
MICRO_BATCHES = 16


def main() -> int:
    """Print the memory after some micro-batches; the return value is the exit code."""
    given = options(__doc__)
    rng = np.random.default_rng(0)
    scale = np.exp(rng.standard_normal(given.elements, np.float32))
    gradient = np.empty(given.elements, np.float32)
    window = Accumulator("weighted_mean")
    tracemalloc.start()
    for index in range(MICRO_BATCHES):
        rng.standard_normal(given.elements, np.float32, out=gradient)
        gradient *= scale
        window.add(gradient, int(rng.integers(200, 2000)))
        if (index + 1) & index == 0:
            held = tracemalloc.get_traced_memory()[0] / gradient.nbytes
            print(f"{index + 1:3} micro-batches: {held:.2f} of a gradient", flush=True)
    peak = tracemalloc.get_traced_memory()[1] / gradient.nbytes
    return verdict("memory at its peak over that of a gradient", peak, BAR)


if __name__ == "__main__":
    sys.exit(main())
