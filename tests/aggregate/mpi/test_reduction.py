"""MPI: gradients of real ranks are combined by the rule, and each rank gets the same."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import failuremap
from aggregate.exact_data import DTYPES, exact_value, hard_rows, nearest
from aggregate.mpi.running import outcomes_of

pytestmark = pytest.mark.mpi

COUNTS = {2: [1, 3], 3: [2, 0, 5], 4: [7, 1, 2, 1000]}
CASES = [
    (rule, dtype, exact)
    for rule in ("weighted_mean", "sum", "mean")
    for dtype in DTYPES
    for exact in (False, True)
]  # fmt: skip
SIZE = 6  # which 4 ranks don't share evenly


def rows_of(rank_count: int, dtype: str, *, hard: bool) -> list[np.ndarray]:
    """Return one gradient for each rank: of any size, some of which nearly cancel, or plain."""
    rng = np.random.default_rng(rank_count + 1)
    if hard:
        return hard_rows(rng, dtype, SIZE, rank_count)[:rank_count]
    return list(rng.normal(size=(rank_count, SIZE)).astype(dtype))


def call(rows: list[Any], counts: list[int], rule: str, **options: Any) -> list[dict[str, Any]]:
    """Return the arguments of each rank for its row and count."""
    each = [{"count": count} if rule == "weighted_mean" else {} for count in counts]
    return [{"gradient": row, "rule": rule, **count, **options} for row, count in zip(rows, each, strict=True)]


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[Any, ...], list[Any]]:
    """What the ranks of three jobs get, by number of ranks and case."""
    found = {}
    for size, counts in COUNTS.items():
        calls = [
            call([row.tolist() for row in rows_of(size, dtype, hard=exact)], counts, rule, dtype=dtype, exact=exact)
            for rule, dtype, exact in CASES
        ]
        found |= {(size, *case): got for case, got in zip(CASES, outcomes_of(calls), strict=True)}
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
@pytest.mark.parametrize("size", COUNTS)
def test_ranks_are_combined_by_the_rule(
    outcomes: dict[tuple[Any, ...], list[Any]], size: int, case: tuple[str, str, bool]
) -> None:
    rule, dtype, exact = case
    first, *others = outcomes[size, *case]
    counts = COUNTS[size] if rule == "weighted_mean" else [1] * size

    assert others == [first] * (size - 1)
    assert first[0] == dtype
    for index, value in enumerate(first[1]):
        _check(value, rows_of(size, dtype, hard=exact), counts, index, rule, dtype, exact)


def _check(
    value: float, rows: list[np.ndarray], counts: list[int], index: int, rule: str, dtype: str, exact: bool
) -> None:
    divisor = 1 if rule == "sum" else sum(counts)
    right = exact_value(rows, counts, divisor, index)
    if exact:
        assert value == nearest(right, dtype)
        return
    # Each product, each addition and the division round to float32 (float64), and the result to its own dtype.
    size = exact_value([abs(row) for row in rows], counts, divisor, index)
    sums = size * (len(rows) + 1) / (2**53 if dtype == "float64" else 2**24)
    assert abs(Fraction(value) - right) <= sums + (abs(right) + sums) * Fraction(float(np.finfo(dtype).eps)) / 2


@pytest.mark.parametrize("exact", [False, True])
def test_what_a_rank_without_units_holds_does_not_matter(exact: bool) -> None:
    poison = [math.nan, math.inf]
    calls = [
        call([[1.0, 2.0], held, [5.0, 6.0]], [1, 0, 3], "weighted_mean", exact=exact) for held in (poison, None, [0.0])
    ]

    assert outcomes_of(calls) == [[["float32", [4.0, 5.0]]] * 3] * 3


def test_where_no_rank_has_units_there_is_no_update() -> None:
    calls = [call([[math.nan], None], [0, 0], "weighted_mean", exact=exact) for exact in (False, True)]

    assert outcomes_of(calls) == [[None, None]] * 2


def test_one_rank_has_what_aggregate_gives() -> None:
    (got,) = outcomes_of([call([[0.1, 0.2]], [3], "weighted_mean", dtype="float64", exact=True)])

    assert got == [["float64", failuremap.aggregate([np.array([0.1, 0.2])], [3]).tolist()]]


def test_a_whole_model_is_reduced_at_once() -> None:
    models = [{"w": [[1.0, 2.0]], "b": [3.0 * k], "empty": []} for k in (1, 3)]
    calls = [call(models, [1, 1], "sum", exact=exact) for exact in (False, True)]

    each = {"w": ["float32", [[2.0, 4.0]]], "b": ["float32", [12.0]], "empty": ["float32", []]}
    assert outcomes_of(calls) == [[each, each]] * 2


def test_exact_is_exact_where_allreduce_is_not() -> None:
    rows = [[1e8], [1.0], [-1e8]]
    plain, exact = outcomes_of([call(rows, [1, 1, 1], "sum", exact=exact) for exact in (False, True)])

    assert exact == [["float32", [1.0]]] * 3
    assert plain == [["float32", [0.0]]] * 3
