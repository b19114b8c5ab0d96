"""exact_sum: the nearest number to the exact sum, whatever the order, with and without the compiled kernel."""

from __future__ import annotations

import importlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from aggregate.exact_data import DTYPES, exact_value, hard_rows, nearest
from failuremap.aggregate.exact import exact_sum
from failuremap.errors import InvalidArgument

module = importlib.import_module("failuremap.aggregate.exact")


@pytest.fixture(params=["compiled", "numpy"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test by the compiled kernel, and without it."""
    if request.param == "numpy":
        monkeypatch.setattr(module, "kernel", None)
    elif module.kernel is None:
        pytest.skip("failuremap was built without its compiled kernel")
    return str(request.param)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(6))
def test_each_element_is_the_nearest_to_the_exact_sum(route: str, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = hard_rows(rng, dtype, 16, int(rng.integers(1, 8)))
    weights = [int(rng.choice([1, 2, 3, 1000, 2**30 + 1])) for _ in rows]
    for divisor in (1, 3, 8, sum(weights)):
        actual = exact_sum(rows, weights, divisor)

        expected = [nearest(exact_value(rows, weights, divisor, index), dtype) for index in range(16)]
        assert actual.dtype == dtype
        assert actual.tolist() == expected


def test_the_order_of_the_rows_does_not_change_a_bit(route: str) -> None:
    rng = np.random.default_rng(3)
    rows = [(rng.standard_normal(5000) * rng.lognormal(0, 2, 5000)).astype(np.float32) for _ in range(7)]
    shuffled = [rows[index] for index in rng.permutation(7)]

    assert exact_sum(rows).tobytes() == exact_sum(shuffled).tobytes()


def test_negative_control_a_chain_of_float32_additions_depends_on_the_order() -> None:
    rng = np.random.default_rng(3)
    rows = [(rng.standard_normal(5000) * rng.lognormal(0, 2, 5000)).astype(np.float32) for _ in range(7)]

    assert sum(rows[1:], rows[0]).tobytes() != sum(rows[-2::-1], rows[-1]).tobytes()


def test_a_place_in_a_longer_array_does_not_change_a_bit(route: str) -> None:
    rng = np.random.default_rng(4)
    rows = [
        rng.standard_normal(3000).astype(np.float32) * np.float32(10) ** rng.integers(-9, 9, 3000) for _ in range(5)
    ]
    rows = [row.astype(np.float32) for row in rows]

    assert exact_sum([row[17:200] for row in rows]).tobytes() == exact_sum(rows)[17:200].tobytes()


def test_what_cancels_leaves_what_is_small(route: str) -> None:
    assert exact_sum([np.array([1e16]), np.array([1.0]), np.array([-1e16])]).tolist() == [1.0]
    assert exact_sum(
        [np.full(3, 2.0**120, np.float32), np.full(3, 2.0**-140, np.float32), np.full(3, -(2.0**120), np.float32)]
    )[0] == np.float32(2.0**-140)


def test_a_sum_that_passes_beyond_the_largest_number_comes_back(route: str) -> None:
    largest = np.finfo(np.float64).max
    rows = [np.array([largest]), np.array([largest]), np.array([-largest])]

    assert exact_sum(rows).tolist() == [largest]
    assert exact_sum(rows, [3, 3, 3], 3).tolist() == [largest]


def test_infinity_and_nan_give_what_ieee_arithmetic_gives(route: str) -> None:
    first = np.array([np.inf, np.inf, np.nan, 1.0], np.float32)
    second = np.array([1.0, -np.inf, 1.0, 2.0], np.float32)

    np.testing.assert_array_equal(exact_sum([first, second]), np.array([np.inf, np.nan, np.nan, 3.0], np.float32))


def test_a_row_of_weight_0_is_skipped_whatever_it_holds(route: str) -> None:
    assert exact_sum([np.array([np.nan], np.float32), np.array([6.0], np.float32)], [0, 2], 2).tolist() == [6.0]
    assert exact_sum([np.array([np.nan])], [0]).tolist() == [0.0]


def test_exact_ties_go_to_the_even_neighbour(route: str) -> None:
    rows = [np.array([1.0, 1 + 2**-23], np.float32), np.array([2.0**-24, 2.0**-24], np.float32)]

    assert exact_sum(rows).tolist() == [1.0, 1 + 2**-22]
    assert exact_sum(rows, [3, 3], 3).tolist() == [1.0, 1 + 2**-22]


def test_denormal_quotients_are_rounded_once(route: str) -> None:
    tiny = np.array([3, 5, 7, 1], np.float32) * np.float32(2.0**-149)

    expected = [nearest(Fraction(float(value)) / 2, "float32") for value in tiny]
    assert exact_sum([tiny], None, 2).tolist() == expected


@pytest.mark.parametrize("shape", [(0,), (2, 3), ()])
def test_the_shape_is_kept(route: str, shape: tuple[int, ...]) -> None:
    assert exact_sum([np.ones(shape, np.float32)] * 2).shape == shape


def test_an_array_that_is_not_contiguous_gives_the_same(route: str) -> None:
    grid = np.arange(12, dtype=np.float32).reshape(3, 4)

    np.testing.assert_array_equal(exact_sum([grid.T, grid.T]), 2 * grid.T)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([],), r"^contributions is empty; expected a list of one NumPy array or more\.$"),
        ((np.ones(3),), r"^contributions is ndarray; expected a list of one NumPy array or more\.$"),
        (([np.ones(2)], [1, 2]), r"^len\(weights\)=2 but there are 1 contributions; give one weight for each\.$"),
        (([np.ones(2)], [-1]), r"^weights\[0\]=-1; expected a whole number of 0 or more\.$"),
        (([np.ones(2)], [True]), r"^weights\[0\]=True; expected a whole number of 0 or more\.$"),
        (([np.ones(2)], None, 0), r"^divisor=0; expected a whole number of 1 or more\.$"),
        (
            ([np.ones(2), np.ones(3)],),
            r"^contributions\[1\] has shape \(3,\) and dtype float64, but contributions\[0\] ",
        ),
        (([np.ones(2, int)],), r"^contributions\[0\] has dtype int64; expected a NumPy array of float16, float32, "),
        (([[1.0]],), r"^contributions\[0\] has type list; expected a NumPy array of float16, float32, float64\.$"),
    ],
)
def test_bad_input_is_one_clear_error(given: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        exact_sum(*given)
