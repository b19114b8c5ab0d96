"""exact_sum of 4 and of 8 arrays takes at most 1.5 times what adding them up in float32 takes; 5 times in NumPy alone.

10 million float32 numbers each; in turns, the best of each. The last column says what adding up gets wrong: the share
of its results that are not the nearest to the exact sum.
"""

from __future__ import annotations

import sys

from failuremap import exact_sum
from failuremap.aggregate import exact_blocks
from support.arrays import best_seconds, chain, gradients, heading, numpy_alone, options, row
from support.runs import verdict

BAR, BAR_NUMPY = 1.5, 5.0


def main() -> int:
    """Print the table; the return value is the exit code."""
    given = options(__doc__)
    heading(given.elements, "np.add")
    worst = worst_numpy = 0.0
    for count in (4, 8):
        rows = gradients(count, given.elements)

        def alone(rows: list = rows) -> object:
            with numpy_alone():
                return exact_sum(rows)

        added, compiled, slow = best_seconds([lambda: chain(rows), lambda: exact_sum(rows), alone], given.turns)  # noqa: B023
        worst = max(worst, row(f"exact_sum of {count}", compiled, added))
        worst_numpy = max(worst_numpy, row(f"exact_sum of {count}, NumPy alone", slow, added))
        print(f"  np.add misses the nearest in {(chain(rows) != exact_sum(rows)).mean():.0%} of the results")
    assert exact_blocks.kernel is not None, "the kernel is not compiled: touch pyproject.toml, then make venv"
    return verdict("exact_sum over adding up", worst, BAR) | verdict("in NumPy alone", worst_numpy, BAR_NUMPY)


if __name__ == "__main__":
    sys.exit(main())
