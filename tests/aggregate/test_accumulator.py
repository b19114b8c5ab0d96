"""Accumulator: one result for any order, grouping and number of workers, and it is the nearest to the exact one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from aggregate.exact_data import DTYPES, exact_value, hard_rows, nearest
from failuremap.aggregate.accumulator import Accumulator
from failuremap.errors import InvalidArgument


def added(rule: str, rows: list[Any], counts: list[int]) -> Accumulator:
    """Accumulate rows, with their counts where the rule has some."""
    total = Accumulator(rule)
    for row, count in zip(rows, counts, strict=True):
        total.add(row, count if rule == "weighted_mean" else None)
    return total


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rule", ["weighted_mean", "sum", "mean"])
def test_any_grouping_over_any_number_of_workers_gives_the_nearest(rule: str, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = hard_rows(rng, dtype, 12, int(rng.integers(1, 7)))
    counts = [int(rng.integers(1, 5000)) for _ in rows]
    worker_of = rng.integers(0, 3, len(rows))
    workers = [
        added(rule, [rows[k] for k in mine], [counts[k] for k in mine])
        for mine in (rng.permutation(np.flatnonzero(worker_of == worker)) for worker in range(3))
    ]
    total = workers[0]
    for other in workers[1:]:
        total.merge(other)

    weights = counts if rule == "weighted_mean" else [1] * len(rows)
    divisor = 1 if rule == "sum" else sum(weights)
    result = total.result()
    assert result is not None
    assert result.tolist() == [nearest(exact_value(rows, weights, divisor, index), dtype) for index in range(12)]


def test_every_order_gives_the_same_bits() -> None:
    rows = [np.array([value, value / 3]) for value in (1e16, 1.0, -1e16, 1e-30)]
    results = {added("sum", list(order), [1] * 4).result().tobytes() for order in itertools.permutations(rows)}  # type: ignore[union-attr]

    assert len(results) == 1


def test_negative_control_float_addition_gives_several() -> None:
    results = {sum(order) for order in itertools.permutations((1e16, 1.0, -1e16, 1e-30))}

    assert len(results) > 1


def test_a_count_of_0_adds_nothing_whatever_the_gradient_holds() -> None:
    total = added("weighted_mean", [np.array([np.nan, np.inf]), np.array([2.0, 4.0]), np.array([])], [0, 3, 0])

    assert total.total_count == 3
    assert total.result().tolist() == [2.0, 4.0]  # type: ignore[union-attr]


def test_without_a_unit_there_is_no_result() -> None:
    assert Accumulator().result() is None
    assert added("weighted_mean", [np.array([np.nan])], [0]).result() is None


def test_merging_leaves_the_other_as_it_is_and_an_empty_one_changes_nothing() -> None:
    one, other = added("sum", [np.array([1.0])], [1]), added("sum", [np.array([2.0])], [1])
    one.merge(other)
    one.merge(Accumulator("sum"))

    assert (one.result(), other.result()) == (np.array([3.0]), np.array([2.0]))


def test_whole_models_are_merged_by_their_keys() -> None:
    one, other = Accumulator(), Accumulator()
    one.add({"w": np.array([1.0, 2.0]), "b": [np.float32([3])]}, 1)
    other.add({"b": [np.float32([7])], "w": np.array([5.0, 6.0])}, 3)
    one.merge(other)

    result = one.result()
    assert result["w"].tolist() == [4.0, 5.0]
    assert (result["b"][0].dtype, result["b"][0].tolist()) == (np.float32, [6.0])


def test_the_state_takes_twice_a_gradients_memory() -> None:
    rng = np.random.default_rng(0)
    total = Accumulator("sum")
    for _ in range(20):
        total.add(rng.standard_normal(100_000).astype(np.float32))
    (state,) = total._sums.values()

    assert state.lo is None
    assert state.hi.nbytes == 2 * 100_000 * 4
    assert len(state.rest) < 100


@pytest.mark.parametrize(
    ("rule", "steps", "message"),
    [
        ("sum", [(np.ones(2), 3)], r"^counts are given but rule='sum' doesn't use them; "),
        ("weighted_mean", [(np.ones(2), None)], r"^counts=None: rule='weighted_mean' needs the number of units "),
        ("weighted_mean", [(np.ones(2), -1)], r"^counts=\[-1\]: counts\[0\] is negative; "),
        (
            "mean",
            [(np.ones(2), None), (np.ones(3), None)],
            r"^gradient has shape \(3,\) but the first gradient has shape \(2,\); every ",
        ),
        (
            "mean",
            [(np.ones(2), None), (np.ones(2, "f4"), None)],
            r"^gradient has dtype float32 but the first gradient has dtype float64; every ",
        ),
        ("mean", [([1.0], None)], r"^gradient is of type list; expected a NumPy array or a PyTorch tensor\.$"),
        (
            "mean",
            [(np.ones(2, int), None)],
            r"^gradient has dtype int64; expected float16, bfloat16, float32, float64\. Convert",
        ),
        (
            "mean",
            [({"a": np.ones(2)}, None), ({"b": np.ones(2)}, None)],
            r"^the first gradient\['a'\] is there but gradient has nothing at \['a'\]; every contribution has the same",
        ),
        ("mean", [({"a": None}, None)], r"^gradient\['a'\] is of type NoneType; expected a NumPy array or a PyTorch"),
        ("avg", [], r"^rule='avg' is not known; expected one of: weighted_mean, sum, mean\.$"),
    ],
)
def test_bad_input_is_one_clear_error(rule: str, steps: list[Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        _add_all(rule, steps)


def _add_all(rule: str, steps: list[Any]) -> None:
    total = Accumulator(rule)
    for row, count in steps:
        total.add(row, count)


def test_a_refused_gradient_leaves_the_sum_as_it_was() -> None:
    total = added("mean", [np.array([1.0, 2.0])], [1])
    with pytest.raises(InvalidArgument):
        total.add(np.ones(3))

    assert total.result().tolist() == [1.0, 2.0]  # type: ignore[union-attr]


def test_sums_of_different_rules_are_not_merged() -> None:
    with pytest.raises(InvalidArgument, match=r"^other\.rule='mean' but this accumulator's rule is 'sum'; merge sums "):
        Accumulator("sum").merge(Accumulator("mean"))


def test_an_accumulator_is_not_merged_with_itself() -> None:
    total = added("sum", [np.array([1.0])], [1])

    with pytest.raises(InvalidArgument, match=r"^other is this accumulator itself; merge that of another worker\.$"):
        total.merge(total)


def test_only_an_accumulator_is_merged() -> None:
    with pytest.raises(InvalidArgument, match=r"^other is of type int; expected another worker's Accumulator\.$"):
        Accumulator("sum").merge(3)  # type: ignore[arg-type]
