"""Grading one answer: its form, its bounds, and what is no answer at all."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from failuremap.catalogue import mechanism
from failuremap.score.grade import Malformed, is_right, same, worst_ulps
from failuremap.score.oracle import exact_answer

THIRD = exact_answer(mechanism("replica-means-ignore-counts"), [([1, -1], 1), ([0, 0], 2)])
SUM = exact_answer(mechanism("partials-averaged"), [[1], [2]])


@pytest.mark.parametrize(
    "answer",
    [
        [1 / 3, -1 / 3],
        [Fraction(1, 3), Fraction(-1, 3)],
        [1 / 3 + 2**-54, math.nextafter(-1 / 3, -1)],
        [1 - 2 / 3, -1 / 3],
    ],
)
def test_what_honest_rounding_gives_is_right(answer):
    assert is_right(answer, THIRD)


@pytest.mark.parametrize(
    "answer",
    [
        [1 / 3, 1 / 3],
        [1 / 3],
        [1 / 3, -1 / 3, 0],
        [0.333333333333, -1 / 3],
        [1 / 3 + 1e-14, -1 / 3],
        [math.nan, -1 / 3],
        [math.inf, -1 / 3],
        [],
    ],
)
def test_what_no_rounding_explains_is_wrong(answer):
    assert not is_right(answer, THIRD)


def test_an_exact_sum_takes_integers_floats_and_fractions_and_nothing_beside_it():
    assert is_right([3], SUM)
    assert is_right([3.0], SUM)
    assert is_right([Fraction(3)], SUM)
    assert not is_right([math.nextafter(3, 4)], SUM)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "None where a list is expected"),
        ((3,), "a tuple where a list is expected"),
        (3, "an int where a list is expected"),
        ([True], "a bool where a number is expected"),
        (["3"], "a str where a number is expected"),
        ([[3]], "a list where a number is expected"),
        ({}, "a dict where a list is expected"),
    ],
)
def test_what_has_not_the_form_of_an_answer_is_named(answer, words):
    with pytest.raises(Malformed) as caught:
        is_right(answer, SUM)

    assert str(caught.value) == words


def test_a_nested_answer_is_compared_in_its_form():
    update = exact_answer(mechanism("previous-gradient-applied"), [[[1]], [[2]]])

    assert is_right([[1], [2]], update)
    assert not is_right([[1, 2]], update)


def test_the_distance_is_counted_from_the_float_nearest_to_the_exact_result():
    assert worst_ulps([1 / 3, -1 / 3], THIRD) == 0
    assert worst_ulps([Fraction(1, 3), -1 / 3], THIRD) == 0
    assert worst_ulps([1 / 3 + 3 * 2**-54, -1 / 3], THIRD) == 3


def test_a_result_that_should_be_zero_has_no_right_digit_when_it_is_not():
    nothing = exact_answer(mechanism("replica-means-ignore-counts"), [([0.1], 1), ([-0.1], 1)])

    assert worst_ulps([1e-17], nothing) == 2.0**53
    assert worst_ulps([1e290], nothing) == 2.0**53


@pytest.mark.parametrize(
    ("one", "other"), [([1], [1.0]), ([0.0], [-0.0]), ([1], (1,)), ({"a": 1}, {"a": 2}), ([True], [1]), ([[]], [])]
)
def test_a_difference_in_one_bit_or_type_is_one(one, other):
    assert not same(one, other)


def test_a_nan_is_the_same_as_a_nan():
    assert same({"a": [(math.nan, 1)]}, {"a": [(float("nan"), 1)]})
