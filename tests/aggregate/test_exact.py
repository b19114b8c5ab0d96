"""exact_sum: the nearest number to the exact sum, whatever the order, by every way there is."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregate.exact_data import DTYPES, exact_value, hard_rows, nearest
from failuremap.aggregate.exact import exact_sum
from failuremap.errors import InvalidArgument

# Anything at all, or numbers of like size.
float64_bits = st.one_of(
    st.integers(0, 2**64 - 1),
    *(st.integers(low, low + 2**54) for low in (0x3FE0_0000_0000_0000, 0xBFE0_0000_0000_0000)),
)
float32_bits = st.one_of(
    st.integers(0, 2**32 - 1), *(st.integers(low, low + 2**25) for low in (0x3F00_0000, 0xBF00_0000))
)


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 15, 16, 17, 1023, 1024, 1025, 2050])
def test_sizes_around_a_block_and_a_vector_are_right(route: str, dtype: str, size: int) -> None:
    rows = hard_rows(np.random.default_rng(size), dtype, size, 3)

    actual = exact_sum(rows, None, 3).tolist()

    at = [0, size // 2, size - 1]
    ones = [1] * len(rows)
    assert [actual[index] for index in at] == [nearest(exact_value(rows, ones, 3, index), dtype) for index in at]


@given(
    bits=st.lists(st.lists(float64_bits, min_size=3, max_size=3), min_size=1, max_size=5),
    weights=st.lists(st.one_of(st.integers(1, 20), st.integers(1, 2**54)), min_size=5, max_size=5),
    divisor=st.one_of(st.integers(1, 60), st.integers(1, 2**54)),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_float64_bits_give_the_nearest(route: str, bits: list[list[int]], weights: list[int], divisor: int) -> None:
    rows = [np.array(row, np.uint64).view(np.float64) for row in bits]

    actual = exact_sum(rows, weights[: len(rows)], divisor)

    for index in np.flatnonzero(np.isfinite(rows).all(axis=0)):
        assert actual[index] == nearest(exact_value(rows, weights[: len(rows)], divisor, int(index)), "float64")


@given(
    bits=st.lists(st.lists(float32_bits, min_size=3, max_size=3), min_size=1, max_size=5),
    weights=st.lists(st.one_of(st.integers(1, 20), st.integers(1, 2**33)), min_size=5, max_size=5),
    divisor=st.one_of(st.integers(1, 60), st.integers(1, 2**54)),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_float32_bits_give_the_nearest(route: str, bits: list[list[int]], weights: list[int], divisor: int) -> None:
    rows = [np.array(row, np.uint32).view(np.float32) for row in bits]
    finite = np.isfinite(rows).all(axis=0)

    actual = exact_sum(rows, weights[: len(rows)], divisor)

    for index in np.flatnonzero(finite):
        expected = nearest(exact_value(rows, weights[: len(rows)], divisor, int(index)), "float32")
        assert actual[index] == expected
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(actual[~finite], sum(rows[1:], rows[0])[~finite])


@pytest.mark.parametrize("shape", [(0,), (2, 3), ()])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_shape_is_kept(route: str, shape: tuple[int, ...], dtype: str) -> None:
    assert exact_sum([np.ones(shape, dtype)] * 2).shape == shape


@pytest.mark.parametrize("dtype", DTYPES)
class TestLayouts:
    """However an array lies in memory, its numbers are what is added up."""

    def test_transposed_reversed_and_strided(self, route: str, dtype: str) -> None:
        grid = np.arange(12, dtype=dtype).reshape(3, 4)

        for view in (grid.T, grid[::-1], grid[:, ::2], np.asfortranarray(grid), np.broadcast_to(grid[:1], (5, 4))):
            np.testing.assert_array_equal(exact_sum([view, view]), 2 * view)

    def test_unaligned_and_read_only(self, route: str, dtype: str) -> None:
        raw = bytearray(1 + 40 * np.dtype(dtype).itemsize)
        unaligned = np.frombuffer(raw, dtype, 40, offset=1)
        unaligned[:] = np.arange(40)
        unaligned.flags.writeable = False
        assert not unaligned.flags.aligned

        np.testing.assert_array_equal(exact_sum([unaligned] * 3), 3 * np.arange(40))

    def test_the_other_byte_order(self, route: str, dtype: str) -> None:
        swapped = np.arange(5).astype(np.dtype(dtype).newbyteorder())

        actual = exact_sum([swapped, np.ones(5, dtype)])

        assert actual.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(actual, np.arange(1, 6))

    def test_the_input_is_left_as_it_was(self, route: str, dtype: str) -> None:
        row = np.ones(3, dtype)

        exact_sum([row])[0] = 9

        assert row.tolist() == [1, 1, 1]


class TestZeros:
    """An exact 0 is +0.0; what is too small to be held keeps its sign."""

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("values", [[-0.0], [-0.0, -0.0], [1.0, -1.0], [-0.0, 0.0]])
    def test_zero_has_no_sign(self, route: str, dtype: str, values: list[float]) -> None:
        rows = [np.full(20, value, dtype) for value in values]

        for divisor in (1, 3, 4):
            assert not np.signbit(exact_sum(rows, None, divisor)).any()

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_a_negative_number_that_is_too_small_becomes_minus_0(self, route: str, dtype: str) -> None:
        tiny = np.full(20, -np.finfo(dtype).smallest_subnormal)

        for divisor in (3, 4):
            actual = exact_sum([tiny], None, divisor)
            assert np.signbit(actual).all()
            assert not actual.any()


def test_zeros_among_other_numbers_cost_nothing_else(route: str) -> None:
    rng = np.random.default_rng(1)
    rows = [
        rng.standard_normal(3000).astype(np.float32) * (rng.random(3000) < 0.5).astype(np.float32) for _ in range(4)
    ]
    rows[0][:] = 0

    actual = exact_sum(rows, [1, 2, 3, 4], 10)

    for index in range(0, 3000, 97):
        assert actual[index] == nearest(exact_value(rows, [1, 2, 3, 4], 10, index), "float32")


class TestNotFinite:
    """Infinity and NaN are results like others, and no warning."""

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_they_are_the_same_bits_for_every_order(self, route: str, dtype: str) -> None:
        kind = np.dtype(f"u{np.dtype(dtype).itemsize}")
        nan = np.array([np.nan], dtype).view(kind)
        odd = [(nan | 1).view(dtype), (nan | 2).view(dtype), np.array([np.inf], dtype), np.array([-np.inf], dtype)]

        results = {exact_sum(list(order)).tobytes() for order in itertools.permutations(odd)}

        assert len(results) == 1

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_infinity_is_divided_to_infinity(self, route: str, dtype: str) -> None:
        rows = [np.array([np.inf, -np.inf, np.inf], dtype), np.array([1, 1, -np.inf], dtype)]

        for divisor in (1, 3, 2**70):
            np.testing.assert_array_equal(exact_sum(rows, [1, 2], divisor), np.array([np.inf, -np.inf, np.nan], dtype))

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_a_result_beyond_the_largest_number_is_infinite(self, route: str, dtype: str) -> None:
        largest = np.full(3, np.finfo(dtype).max)

        assert exact_sum([largest, largest]).tolist() == [np.inf] * 3
        assert exact_sum([-largest, -largest]).tolist() == [-np.inf] * 3
        assert exact_sum([largest] * 5, None, 5).tolist() == largest.tolist()

    def test_where_all_are_infinite_the_results_are(self, route: str) -> None:
        up = np.full(40, np.inf, np.float32)

        assert exact_sum([up, up]).tolist() == [np.inf] * 40
        assert exact_sum([up, -up]).tobytes() == np.full(40, np.nan, np.float32).tobytes()

    def test_one_of_many_leaves_its_neighbours_right(self, route: str) -> None:
        rows = [np.ones(3000, np.float32), np.ones(3000, np.float32)]
        rows[0][[5, 2999]] = np.nan, 2.0**-140

        actual = exact_sum(rows, None, 3)

        assert np.flatnonzero(np.isnan(actual)).tolist() == [5]
        assert actual[0] == np.float32(2 / 3)
        assert actual[2999] == np.float32(1 / 3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("large", [2**53 + 1, 2**70 + 3, 2**1100 + 7])
def test_weights_and_divisors_may_be_larger_than_a_float_holds(route: str, dtype: str, large: int) -> None:
    rows = [np.array([1.5, -3.25, 0.0], dtype), np.array([0.75, 3.25, 1.0], dtype)]

    actual = exact_sum(rows, [large, 1], large + 2).tolist()

    assert actual == [nearest(exact_value(rows, [large, 1], large + 2, index), dtype) for index in range(3)]
    assert exact_sum(rows, [large, large], 2 * large).tolist() == exact_sum(rows, [1, 1], 2).tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), r"^contributions is empty; expected a list of one array or more\.$"),
        ((np.ones(3),), r"^contributions is ndarray; expected a list of one array or more\.$"),
        (([np.ones(2)], [1, 2]), r"^len\(weights\)=2 but there are 1 contributions; give one weight for each\.$"),
        (([np.ones(2)], [-1]), r"^weights\[0\]=-1; expected a whole number of 0 or more\.$"),
        (([np.ones(2)], [True]), r"^weights\[0\]=True; expected a whole number of 0 or more\.$"),
        (([np.ones(2)], None, 0), r"^divisor=0; expected a whole number of 1 or more\.$"),
        (
            ([np.ones(2), np.ones(3)],),
            r"^contributions\[1\] has shape \(3,\) but contributions\[0\] has shape \(2,\); every ",
        ),
        (
            ([np.ones(2, int)],),
            r"^contributions\[0\] has dtype int64; expected float16, bfloat16, float32, float64\. Conv",
        ),
        (([np.ma.ones(2)],), r"^contributions\[0\] is a masked array; say what the masked values are, such as with "),
        (([[1.0]],), r"^contributions\[0\] is of type list; expected a NumPy array or a PyTorch tensor\.$"),
    ],
)
def test_bad_input_is_one_clear_error(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        exact_sum(*arguments)
