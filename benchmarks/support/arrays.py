"""Gradients as NumPy arrays, what adding them up costs, and other ways timed against it, in turns."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from failuremap.aggregate import exact_blocks

ELEMENTS = 10_000_000


def options(doc: str | None) -> argparse.Namespace:
    """Read the command line: how many elements, how many turns."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=ELEMENTS)
    parser.add_argument("--turns", type=int, default=7)
    return parser.parse_args()


def gradients(count: int, elements: int) -> list[np.ndarray[Any, Any]]:
    """Draw float32 gradients whose numbers differ in size as those of a model's layers do."""
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(elements, np.float32) * np.exp(rng.standard_normal(elements, np.float32))
        for _ in range(count)
    ]


def chain(rows: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Add rows up in float32, one after another: what most code does."""
    total = rows[0] + rows[1]
    for row in rows[2:]:
        np.add(total, row, out=total)
    return total


@contextmanager
def numpy_alone() -> Iterator[None]:
    """Do without the compiled kernel."""
    kernel, exact_blocks.kernel = exact_blocks.kernel, None
    try:
        yield
    finally:
        exact_blocks.kernel = kernel


def best_seconds(ways: Sequence[Callable[[], object]], turns: int) -> list[tuple[float, float]]:
    """Time each way in turn, several times; return the best wall and CPU seconds of each."""
    best = [(float("inf"), float("inf"))] * len(ways)
    for _ in range(turns):
        for index, way in enumerate(ways):
            wall, cpu = time.perf_counter(), time.process_time()
            way()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            best[index] = min(best[index][0], wall), min(best[index][1], cpu)
    return best


def row(what: str, timed: tuple[float, float], reference: tuple[float, float]) -> float:
    """Print one line of a table; return the ratio of the wall times."""
    wall, cpu = timed[0] / reference[0], timed[1] / reference[1]
    print(f"{what:44}{timed[0] * 1e3:8.0f} ms{reference[0] * 1e3:8.0f} ms{wall:7.2f}{cpu:7.2f}", flush=True)
    return wall


def heading(elements: int, reference: str) -> None:
    """Print the head of the table."""
    print(f"{f'{elements:,} float32 each':44}{'ours':>11}{reference:>11}{'wall':>7}{'CPU':>7}")
