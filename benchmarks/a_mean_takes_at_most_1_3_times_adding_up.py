"""aggregate's mean of 8 gradients takes at most 1.3 times what adding them up in float32 and dividing takes.

10 million float32 numbers each. Ours is the exact mean, rounded once, with the compiled kernel; the table shows NumPy
alone, too, and the weighted mean. In turns, the best of each.
"""

from __future__ import annotations

import sys

import numpy as np

from failuremap import aggregate
from failuremap.aggregate import exact_blocks
from support.arrays import best_seconds, chain, gradients, heading, numpy_alone, options, row
from support.runs import verdict

BAR = 1.3
COUNT = 8


def main() -> int:
    """Print the table; the return value is the exit code."""
    given = options(__doc__)
    rows = gradients(COUNT, given.elements)
    counts = list(range(100, 100 + COUNT))

    def divided() -> object:
        return np.divide(total := chain(rows), np.float32(COUNT), out=total)

    def alone() -> object:
        with numpy_alone():
            return aggregate(rows, rule="mean")

    ways = [divided, lambda: aggregate(rows, rule="mean"), lambda: aggregate(rows, counts), alone]
    reference, mean, weighted, slow = best_seconds(ways, given.turns)
    heading(given.elements, "np.add, /")
    ratio = row(f"mean of {COUNT}", mean, reference)
    row(f"weighted mean of {COUNT}", weighted, reference)
    row(f"mean of {COUNT}, NumPy alone", slow, reference)
    assert exact_blocks.kernel is not None, "the kernel is not compiled: touch pyproject.toml, then make venv"
    return verdict("a mean over adding up and dividing", ratio, BAR)


if __name__ == "__main__":
    sys.exit(main())
