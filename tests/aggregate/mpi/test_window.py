"""MPI: exact sums of micro-batches give the same bits on any number of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aggregate.exact_data import exact_value, nearest
from aggregate.mpi.running import outcomes_of

pytestmark = pytest.mark.mpi

RULES = ("weighted_mean", "sum", "mean")
COUNTS = [3, 1, 0, 7, 2, 11, 5, 1]
ROWS = [
    (rng.normal(size=5) * np.exp2(rng.integers(-9, 9, 5))).astype(np.float32)
    for rng in map(np.random.default_rng, range(8))
]


def window(rank: int, rank_count: int, rule: str = "weighted_mean") -> dict[str, Any]:
    """Return the arguments of a rank that has every `rank_count`-th micro-batch."""
    own = range(rank, len(ROWS), rank_count)
    return {"rule": rule, "window": [[ROWS[m].tolist(), COUNTS[m] if rule == "weighted_mean" else None] for m in own]}


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, int], Any]:
    """What the ranks of three jobs get, by rule and number of ranks."""
    found = {}
    for size in (1, 2, 4):
        calls = [[window(rank, size, rule) for rank in range(size)] for rule in RULES]
        found |= {(rule, size): got for rule, got in zip(RULES, outcomes_of(calls), strict=True)}
    return found


@pytest.mark.parametrize("rule", RULES)
def test_any_number_of_ranks_gives_the_nearest_to_the_exact_result(
    outcomes: dict[tuple[str, int], Any], rule: str
) -> None:
    counts = COUNTS if rule == "weighted_mean" else [1] * len(ROWS)
    divisor = 1 if rule == "sum" else sum(counts)
    right = [nearest(exact_value(ROWS, counts, divisor, index), "float32") for index in range(5)]

    for size in (1, 2, 4):
        assert outcomes[rule, size] == [["float32", right]] * size


def test_negative_control_local_sums_in_float32_depend_on_the_number_of_ranks() -> None:
    def summed(rank_count: int) -> list[float]:
        local = [np.add.reduce(ROWS[rank::rank_count], axis=0).tolist() for rank in range(rank_count)]
        (got,) = outcomes_of([[{"gradient": row, "rule": "sum"} for row in local]])
        values: list[float] = got[0][1]
        return values

    assert summed(1) != summed(2)


def test_a_rank_without_micro_batches_takes_part() -> None:
    empty = {"rule": "weighted_mean", "window": []}
    full = {"rule": "weighted_mean", "window": [[[4.0], 2]]}
    without_units = {"rule": "weighted_mean", "window": [[[4.0], 0]]}

    got = outcomes_of([[empty, full], [full, empty], [empty, without_units]])

    assert got == [[["float32", [4.0]]] * 2] * 2 + [[None, None]]


FITTING = {"rule": "sum", "window": [[[1.0], None]]}
REFUSED = {
    (
        "the window of rank 2 doesn't fit that of ranks 0, 1: other has shape (2,) but the first gradient has shape "
        "(1,); every contribution to one parameter has the same shape."
    ): [FITTING, {"rule": "sum", "window": []}, {"rule": "sum", "window": [[[1.0, 2.0], None]]}],
    ("rule='sum' on rank 0, but 'mean' on ranks 1, 2; all ranks make the same call, on gradients of one kind."): [
        FITTING,
        {"rule": "mean", "window": []},
        {"rule": "mean", "window": []},
    ],
    "ranks 1, 2: window is of type list; expected an Accumulator.": [FITTING, {"no window": []}, {"no window": []}],
    (
        "the call is allreduce_window on rank 0, but allreduce on ranks 1, 2; all ranks make the same call, on "
        "gradients of one kind."
    ): [FITTING, {"gradient": [1.0], "rule": "sum"}, {"gradient": [1.0], "rule": "sum"}],
}


def test_windows_that_do_not_fit_are_refused_on_all_ranks() -> None:
    got = outcomes_of(list(REFUSED.values()))

    assert got == [[f"refused: {message}"] * 3 for message in REFUSED]
