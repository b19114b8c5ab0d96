"""Contributions that did not arrive or are not finite: refused, or left out of the mean and of its divisor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from failuremap.aggregate import aggregate
from failuremap.errors import InvalidArgument

NAN, INF = math.nan, math.inf
vectors = st.lists(st.integers(-9, 9), min_size=2, max_size=2)


@given(
    rows=st.lists(st.tuples(vectors, st.integers(0, 5)), min_size=1, max_size=5),
    absent=st.lists(st.integers(0, 4), max_size=5),
    rule=st.sampled_from(["weighted_mean", "mean"]),
    bad=st.sampled_from([None, [NAN, 1.0], [0.0, -INF]]),
)
def test_what_is_left_out_is_as_if_it_had_never_been(rows: Any, absent: list[int], rule: Any, bad: Any) -> None:
    left = [row for k, row in enumerate(rows) if k not in absent]
    given_rows = [(bad if k in absent else vector, count) for k, (vector, count) in enumerate(rows)]
    policy: Any = {"missing": "renormalize"} if bad is None else {"nonfinite": "exclude"}

    def counts_of(some: Any) -> Any:
        return [count for _, count in some] if rule == "weighted_mean" else None

    actual = aggregate([vector for vector, _ in given_rows], counts_of(given_rows), rule=rule, **policy)

    assert (actual or []) == aggregate([vector for vector, _ in left], counts_of(left), rule=rule)


def test_negative_control_a_zero_in_its_place_is_something_else() -> None:
    assert aggregate([[4.0], None], [1, 1], missing="renormalize") == [4.0]
    assert aggregate([[4.0], [0.0]], [1, 1]) == [2.0]


def test_one_element_leaves_the_whole_contribution_out() -> None:
    one = {"a": np.array([1.0, 2.0]), "b": [3.0]}
    other = {"a": np.array([5.0, 6.0]), "b": [NAN]}

    update = aggregate([one, other], [1, 1], nonfinite="exclude")

    assert update["a"].tolist() == [1.0, 2.0]
    assert update["b"] == [3.0]


def test_infinity_and_nan_go_through_unless_said_otherwise() -> None:
    assert math.isnan(aggregate([[NAN], [1.0]], rule="mean")[0])
    assert aggregate([np.array([INF]), np.array([1.0])], rule="mean").tolist() == [INF]


def test_a_finite_sum_of_large_numbers_is_not_excluded() -> None:
    assert aggregate([[1e308], [1e308]], rule="mean", nonfinite="exclude") == [1e308]


@pytest.mark.parametrize("parts", [[None, None], [None, np.ones(2)], [None, {"a": [1.0]}]])
def test_where_nothing_is_left_there_is_no_update(parts: Any) -> None:
    counts = [1, 0]

    assert aggregate(parts, counts, missing="renormalize") is None
    assert aggregate([None, [1.0]], counts, missing="renormalize") == []


def test_all_excluded_is_no_update() -> None:
    assert aggregate([[NAN], [INF]], rule="mean", nonfinite="exclude") == []
    assert aggregate([np.array([NAN])], [3], nonfinite="exclude") is None


def test_the_count_of_what_did_not_arrive_may_be_unknown() -> None:
    assert aggregate([[1.0], None], [2, None], missing="renormalize") == [1.0]


def test_a_count_of_0_that_did_not_arrive_is_not_missed() -> None:
    assert aggregate([[1.0], None], [2, 0]) == [1.0]


def test_a_count_of_0_that_is_not_finite_is_not_looked_at() -> None:
    assert aggregate([[1.0], [NAN]], [2, 0], nonfinite="raise") == [1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"rule": "mean"},
            (
                r"^contributions\[1\] is None: it did not arrive, and missing='raise'\. Drop the step, or take the "
                r"mean over those that arrived with missing='renormalize'\.$"
            ),
        ),
        (
            {"rule": "sum"},
            (
                r"^contributions\[1\] is None: it did not arrive, and missing='raise'\. A sum has no value without all "
                r"its parts: drop the step\.$"
            ),
        ),
        ({"counts": [1, None, 1]}, r"^contributions\[1\] is None: it did not arrive, and missing='raise'\. Drop "),
        ({"counts": [1, 3, 1]}, r"^contributions\[1\] is None: it did not arrive, "),
        ({"counts": [None, 3, 1]}, r"^counts=\[None, 3, 1\]: counts\[0\] is no number; "),
        ({"counts": [1, -3, 1], "missing": "renormalize"}, r"^counts=\[1, -3, 1\]: counts\[1\] is negative; "),
        ({"counts": [1, 3], "missing": "renormalize"}, r"^len\(counts\)=2 but there are 3 contributions; "),
        (
            {"rule": "sum", "missing": "renormalize"},
            (
                r"^missing='renormalize' has no meaning for rule='sum': its parts are disjoint, so nothing stands for "
                r"one that is left out\. Use missing='raise', and drop the step\.$"
            ),
        ),
        ({"rule": "sum", "nonfinite": "exclude"}, r"^nonfinite='exclude' has no meaning for rule='sum': its parts "),
        ({"rule": "mean", "missing": "skip"}, r"^missing='skip' is not known; expected one of: raise, renormalize\.$"),
        (
            {"rule": "mean", "nonfinite": "zero"},
            r"^nonfinite='zero' is not known; expected one of: propagate, raise, exclude\.$",
        ),
        (
            {"rule": "mean", "missing": "renormalize", "nonfinite": "raise"},
            (
                r"^contributions\[2\]\[0\] holds infinity or NaN; expected finite numbers, by nonfinite='raise'\. Drop "
                r"the step, or leave such a contribution out of a mean with nonfinite='exclude'\.$"
            ),
        ),
    ],
)
def test_what_may_not_be_left_out_is_one_clear_error(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        aggregate([[[1.0]], None, [[NAN]]], **arguments)
