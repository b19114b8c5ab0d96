"""Flower's and optax's own averages of the same gradients are no faster than ours.

* Flower's `aggregate` is what its FedAvg strategy averages NumPy weights with; against it stands
  `failuremap.aggregate`, weighted mean of 8 clients, four layers each.
* `optax.MultiSteps` averages micro-batches; against it stand `failuremap.aggregate.jax.accumulate`, which counts their
  units, and `failuremap.aggregate` on the same numbers. 8 micro-batches, compiled once, an optimizer step included.

A library that is not installed is left out, and said so. hivemind is not here: it needs a daemon built from Go. In
turns, the best of each.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from failuremap import aggregate
from support.arrays import best_seconds, gradients, heading, options, row
from support.runs import verdict

BAR = 1.0
COUNT = 8


def against_flower(rows: list[np.ndarray[Any, Any]], turns: int) -> float:
    """Print one line for each dtype; return the worse of ours over Flower's."""
    from flwr.server.strategy.aggregate import aggregate as flower_aggregate

    counts = list(range(100, 100 + COUNT))
    ratios = []
    for dtype in ("float32", "float64"):
        models = [np.array_split(gradient.astype(dtype, copy=False), 4) for gradient in rows]
        pairs = list(zip(models, counts, strict=True))
        ways = [partial(flower_aggregate, pairs), partial(aggregate, models, counts)]
        theirs, ours = best_seconds(ways, turns)
        ratios.append(row(f"weighted mean of 8 {dtype} models, Flower", ours, theirs))
    return max(ratios)


def against_optax(rows: list[np.ndarray[Any, Any]], turns: int) -> float:
    """Print two lines; return the worse of ours over optax's."""
    import jax
    import optax

    from failuremap.aggregate.jax import accumulate

    parts = [jax.device_put(gradient) for gradient in rows]
    params = jax.numpy.zeros_like(parts[0])

    def window(optimizer: Any, **counts: int) -> Callable[[], object]:
        update = jax.jit(lambda part, state: optimizer.update(part, state, params, **counts), donate_argnums=1)

        def run() -> object:
            state, updates = jax.jit(optimizer.init)(params), None
            for part in parts:
                updates, state = update(part, state)
            return jax.block_until_ready(updates)

        run()  # compiles
        return run

    theirs, ours, arrays = best_seconds(
        [
            window(optax.MultiSteps(optax.sgd(0.1), COUNT)),
            window(accumulate(optax.sgd(0.1), COUNT), count=100),
            lambda: aggregate(rows, rule="mean"),
        ],
        turns,
    )
    return max(row("8 micro-batches, optax", ours, theirs), row("mean of 8, optax", arrays, theirs))


def main() -> int:
    """Print the table; the return value is the exit code."""
    given = options(__doc__)
    rows = gradients(COUNT, given.elements)
    heading(given.elements, "theirs")
    worst = 0.0
    for library, compare in (("flwr", against_flower), ("optax", against_optax)):
        if importlib.util.find_spec(library):
            worst = max(worst, compare(rows, given.turns))
        else:
            print(f"{library} is not installed: pip install {library}")
    return verdict("ours over theirs", worst, BAR)


if __name__ == "__main__":
    sys.exit(main())
