"""Aggregation: the contracts, the laws, two routes that agree, and what is refused."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from failuremap.aggregate import aggregate
from failuremap.errors import InvalidArgument

NAN = math.nan
finite = st.floats(-1e6, 1e6, allow_subnormal=False)
rows = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.tuples(st.lists(finite, min_size=width, max_size=width), st.integers(0, 1000)), min_size=1, max_size=6
    )
)


def parts_of(given_rows):
    return [vector for vector, _ in given_rows], [count for _, count in given_rows]


def exact_mean(vectors, counts):
    total = sum(counts)
    columns = zip(*([Fraction(x) * n for x in v] for v, n in zip(vectors, counts, strict=True)), strict=True)
    return [sum(column) / total for column in columns]


class TestContracts:
    """Both seed families, verbatim."""

    @pytest.mark.parametrize("n", range(1, 6))
    def test_weighted_mean_on_the_published_fixtures(self, n):
        fixtures = [
            ([([n, 2 * n], 1), ([3 * n, 4 * n], 3)], [2.5 * n, 3.5 * n]),
            ([([n], 2), ([3 * n], 2)], [2 * n]),
            ([([9 * n], 0), ([2 * n], 2)], [2 * n]),
            ([([n], 0)], []),
            ([], []),
            ([([n, 2 * n], n)], [n, 2 * n]),
            ([([n], n), ([5 * n], n + 1)], [n * (6 * n + 5) / (2 * n + 1)]),
        ]

        assert [aggregate(*parts_of(given_rows)) for given_rows, _ in fixtures] == [right for _, right in fixtures]

    @pytest.mark.parametrize("n", range(1, 6))
    def test_weighted_mean_of_arrays_on_the_published_fixtures(self, n):
        vectors = np.array([[n], [5 * n]], float)

        assert aggregate(vectors, [n, n + 1]).tolist() == [n * (6 * n + 5) / (2 * n + 1)]

    @pytest.mark.parametrize("n", range(1, 6))
    def test_sum_on_the_published_fixtures(self, n):
        fixtures = [
            ([[n, 2], [3 * n, 4]], [4 * n, 6]),
            ([[n], [-n], [2 * n]], [2 * n]),
            ([], []),
            ([[n, 0]], [n, 0]),
            ([[1], [2], [n]], [n + 3]),
            ([[-n, 2 * n], [n, -n]], [0, n]),
        ]

        assert [aggregate(parts, rule="sum") for parts, _ in fixtures] == [right for _, right in fixtures]

    @pytest.mark.parametrize("idle", [[NAN, NAN], [math.inf, 1], []])
    def test_a_zero_count_contributes_nothing_whatever_it_holds(self, idle):
        assert aggregate([idle, [1.0, 3.0]], [0, 2]) == [1, 3]
        assert aggregate([np.array(idle), np.array([1.0, 3.0])], [0, 2]).tolist() == [1, 3]

    def test_negative_control_with_a_count_it_does_contribute(self):
        assert math.isnan(aggregate([[NAN, NAN], [1.0, 3.0]], [1, 2])[0])
        assert np.isnan(aggregate(np.array([[NAN, NAN], [1.0, 3.0]]), [1, 2])).all()

    def test_no_unit_at_all_is_no_update(self):
        assert aggregate([[NAN], [1.0]], [0, 0]) == []
        assert aggregate(np.array([[NAN], [1.0]]), [0, 0]) is None
        assert [aggregate([], [], rule="weighted_mean"), aggregate([], rule="mean")] == [[], []]
        assert aggregate(np.zeros((0, 3)), rule="sum") is None

    def test_parts_of_no_parameter_are_no_parameter(self):
        assert aggregate([[], []], rule="sum") == []
        assert aggregate(np.zeros((2, 0)), rule="sum").shape == (0,)

    def test_a_mean_weighs_all_alike(self):
        assert aggregate([[1], [2], [6]], rule="mean") == [3]
        assert aggregate(np.array([[1.0], [2.0], [6.0]]), rule="mean").tolist() == [3]

    def test_the_input_is_left_as_it_was(self):
        vectors = np.array([[1.0, 2.0]])

        aggregate(vectors, [1])[0] = 9

        assert vectors.tolist() == [[1, 2]]


class TestNumbers:
    """Exact where the input is, rounded once where it is not."""

    def test_a_sum_of_ints_is_an_int_of_any_size(self):
        (total,) = aggregate([[2**70], [1]], rule="sum")

        assert total == 2**70 + 1
        assert isinstance(total, int)

    def test_a_mean_of_ints_is_a_float_rounded_once(self):
        assert aggregate([[2**70], [1]], [1, 2]) == [(2**70 + 2) / 3]
        assert isinstance(aggregate([[2], [4]], [1, 1])[0], float)

    def test_fractions_stay_exact(self):
        assert aggregate([[Fraction(1, 3)], [1]], [1, 2]) == [Fraction(7, 9)]

    def test_floats_cancel_exactly(self):
        assert aggregate([[1e16], [1.0], [-1e16]], rule="sum") == [1.0]
        assert aggregate([[0.1]] * 10, rule="sum") == [1.0]

    def test_infinity_goes_through_and_opposite_ones_are_nan(self):
        assert aggregate([[math.inf], [1.0]], [1, 2]) == [math.inf]
        assert math.isnan(aggregate([[math.inf], [-math.inf]], rule="sum")[0])
        assert aggregate(np.array([[math.inf], [1.0]]), [1, 2]).tolist() == [math.inf]

    def test_a_sum_beyond_the_largest_float_is_infinite(self):
        assert aggregate([[-1e308], [-1e308]], rule="sum") == [-math.inf]
        assert aggregate(np.array([[1e308], [1e308]]), rule="sum").tolist() == [math.inf]

    def test_a_mean_of_large_numbers_does_not_overflow_on_the_way(self):
        assert aggregate([[1e308, 1.0], [1e308, 3.0]], [3, 3]) == [1e308, 2]
        assert aggregate(np.array([[1e308, 1e-300], [1e308, 3e-300]]), [3, 3]).tolist() == [1e308, 2e-300]

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_an_array_keeps_its_dtype_and_shape(self, dtype):
        update = aggregate(np.ones((3, 2, 4), dtype), [1, 2, 3])

        assert (update.dtype, update.shape) == (np.dtype(dtype), (2, 4))

    def test_scalars_of_one_array_give_a_scalar_array(self):
        assert aggregate(np.array([1.0, 3.0]), [1, 3]).tolist() == 2.5  # a 0-d array

    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
    def test_integers_become_float64_and_do_not_wrap(self, dtype):
        update = aggregate(np.array([[100], [100]], dtype), rule="sum")

        assert (update.dtype, update.tolist()) == (np.float64, [200])

    def test_integers_of_64_bits_do_not_lose_one(self):
        assert aggregate(np.array([[2**62 + 1], [-(2**62)]]), rule="sum").tolist() == [1]
        assert aggregate(np.array([[2**64 - 1], [1]], np.uint64), rule="sum").tolist() == [2**64]

    def test_half_precision_is_accumulated_in_double(self):
        vectors = np.full((300, 1), 300, np.float16)

        assert aggregate(vectors, [300] * 300).tolist() == [300]

    def test_lists_of_numpy_numbers_are_lists_of_numbers(self):
        assert aggregate([[np.float32(1.5)], [np.int64(2)]], np.array([1, 1])) == [1.75]
        assert aggregate([[np.int64(1)], [np.int64(2)]], rule="sum") == [3]

    def test_numpy_integers_in_a_list_do_not_wrap(self):
        assert aggregate([[np.int64(2**62)], [np.int64(2**62)]], rule="sum") == [2**63]
        assert aggregate([[np.uint8(200)], [np.uint8(100)]], [300, 300]) == [150.0]

    def test_a_whole_float_is_a_count(self):
        assert aggregate([[1], [3]], [1.0, 3.0]) == [2.5]


class TestLaws:
    """Laws of the weighted mean, on lists and arrays; and these agree."""

    @staticmethod
    def of_arrays(given_rows):
        vectors, counts = parts_of(given_rows)
        update = aggregate([np.array(vector) for vector in vectors], counts)
        return [] if update is None else update.tolist()

    @given(given_rows=rows)
    def test_lists_and_arrays_agree_to_the_last_bit(self, given_rows):
        assert self.of_arrays(given_rows) == aggregate(*parts_of(given_rows))

    @given(given_rows=rows.filter(lambda r: sum(count for _, count in r)))
    def test_negative_control_another_rule_does_not_agree(self, given_rows):
        vectors, counts = parts_of([*given_rows, ([1e9] * len(given_rows[0][0]), 5000)])

        assert aggregate(np.array(vectors), rule="mean").tolist() != aggregate(vectors, counts)

    @given(given_rows=rows)
    def test_a_list_result_is_the_exact_one_rounded_once(self, given_rows):
        vectors, counts = parts_of(given_rows)

        right = [float(x) for x in exact_mean(vectors, counts)] if sum(counts) else []

        assert aggregate(vectors, counts) == right

    @given(given_rows=rows, data=st.data())
    def test_order_does_not_matter(self, given_rows, data):
        shuffled = data.draw(st.permutations(given_rows))

        assert aggregate(*parts_of(shuffled)) == aggregate(*parts_of(given_rows))
        assert self.of_arrays(shuffled) == self.of_arrays(given_rows)

    @given(given_rows=rows, first=st.integers(0, 1000))
    def test_splitting_a_contribution_in_two_changes_nothing(self, given_rows, first):
        (vector, count), *rest = given_rows
        split = [(vector, min(first, count)), (vector, count - min(first, count)), *rest]

        assert aggregate(*parts_of(split)) == aggregate(*parts_of(given_rows))
        assert self.of_arrays(split) == self.of_arrays(given_rows)

    @given(given_rows=rows, at=st.integers(0, 6))
    def test_a_zero_count_changes_nothing(self, given_rows, at):
        more = [*given_rows[:at], ([NAN], 0), *given_rows[at:]]

        assert aggregate(*parts_of(more)) == aggregate(*parts_of(given_rows))
        assert self.of_arrays(more) == self.of_arrays(given_rows)

    @given(given_rows=rows, factor=st.integers(1, 9))
    def test_scaling_all_counts_changes_nothing(self, given_rows, factor):
        scaled = [(vector, factor * count) for vector, count in given_rows]

        assert aggregate(*parts_of(scaled)) == aggregate(*parts_of(given_rows))


class TestRefusals:
    """Each message says what is wrong, what was expected, and where."""

    @pytest.mark.parametrize(
        ("contributions", "counts", "rule", "message"),
        [
            ([[1]], None, "avg", r"^rule='avg' is not known; expected one of: weighted_mean, sum, mean\.$"),
            (
                [[1]],
                None,
                "weighted_mean",
                r"^counts=None: rule='weighted_mean' needs the number of units .*sum or mean\.$",
            ),
            ([[1]], [1], "sum", r"^counts are given but rule='sum' doesn't use them; leave them out, or use rule="),
            (
                [[1], [2]],
                [1],
                "weighted_mean",
                r"^len\(counts\)=1 but there are 2 contributions; give one count for each\.$",
            ),
            ([[1]], 1, "weighted_mean", r"^counts=1 is no list; give one count for each contribution\.$"),
            (
                [[1], [2]],
                [3, -1],
                "weighted_mean",
                r"^counts=\[3, -1\]: counts\[1\] is negative; a count is how many examples .* 0 or more\.$",
            ),
            (
                [[1], [2]],
                [NAN, 1],
                "weighted_mean",
                r"^counts=\[nan, 1\]: counts\[0\] is not finite; a count is how many ",
            ),
            (
                [[1], [2]],
                [1, True],
                "weighted_mean",
                r"^counts=\[1, True\]: counts\[1\] is no number; a count is how many ",
            ),
            (
                [[1], [2]],
                [1, 0.5],
                "weighted_mean",
                r"^counts=\[1, 0.5\]: counts\[1\] is not whole; a count is how many ",
            ),
            (np.float64(3.0), None, "sum", r"^contributions is of type float64; expected a list with one gradient "),
            (np.array(3.0), None, "sum", r"^contributions has no axis; its first one is that of the contributions\.$"),
            (
                [np.ma.ones(2)],
                None,
                "sum",
                r"^contributions\[0\] is a masked array; say what the masked values are, such as with \.filled\(0\)\.$",
            ),
            ([[1]], ["3"], "weighted_mean", r"^counts=\['3'\]: counts\[0\] is no number; "),
            ([[1]] * 9, [1] * 8 + [-2], "weighted_mean", r"^counts\[8\]=-2 is negative; "),
            (
                [[1, 2], [3, 4], [5]],
                None,
                "sum",
                r"^contributions\[2\] has shape \(1,\) but contributions\[0\] has shape \(2,\); every .* same shape\.$",
            ),
            (
                [[1], ["a"]],
                None,
                "sum",
                r"^contributions\[1\]\[0\]='a' is no number; a gradient is a list of numbers\.$",
            ),
            ([[True]], None, "sum", r"^contributions\[0\]\[0\]=True is no number; "),
            (
                [1, 2],
                None,
                "sum",
                r"^contributions\[0\] is of type int; expected a list of numbers, a NumPy array or a PyTorch tensor\.$",
            ),
            (
                {1: [2]},
                None,
                "sum",
                r"^contributions is of type dict; expected a list with one gradient for each contribution, or an ",
            ),
            (
                [np.ones(3), np.ones(4)],
                None,
                "sum",
                r"^contributions\[1\] has shape \(4,\) but contributions\[0\] has shape \(3,\); every .* same shape\.$",
            ),
            (
                [np.ones(3), np.ones(3, np.float32)],
                None,
                "sum",
                r"^contributions\[1\] has dtype float32 but contributions\[0\] has dtype float64; .* same dtype\.$",
            ),
            (
                np.ones((2, 3), complex),
                None,
                "sum",
                r"^contributions\[0\] has dtype complex128; expected float16, bfloat16, float32, float64 or integers\.",
            ),
            (np.ones((2, 3), bool), None, "sum", r"^contributions\[0\] has dtype bool; expected float16, "),
            (
                np.ones((2, 3), "m8[s]"),
                None,
                "sum",
                r"^contributions\[0\] has dtype timedelta64\[s\]; expected float16, ",
            ),
            ([[1]], None, np.array(["sum", "mean"]), r"^rule=array\(.* is not known; expected one of: weighted_mean, "),
            (
                [np.ones(1), [1.0]],
                None,
                "sum",
                r"^contributions\[1\] is a list but contributions\[0\] is a NumPy array; give one kind\.$",
            ),
        ],
    )
    def test_an_argument_that_does_not_fit_is_refused(self, contributions, counts, rule, message):
        with pytest.raises(InvalidArgument, match=message):
            aggregate(contributions, counts, rule=rule)


def test_lists_need_no_numpy():
    code = (
        "import sys; from failuremap.aggregate import aggregate; "
        "print(aggregate([[1], [3]], [1, 3]), 'numpy' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[2.5] False"
