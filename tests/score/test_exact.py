"""Exact numbers: what they compute, and what they remember of how they were computed."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failuremap.score.exact import Exact, lifted, root

numbers = st.integers(-(10**6), 10**6) | st.floats(1e-9, 1e6) | st.floats(-1e6, -1e-9)
some = settings(max_examples=40, deadline=None)


@some
@given(numbers, numbers)
def test_the_four_operations_are_those_of_fractions(one, other):
    a, b = Exact.of(one), Exact.of(other)

    assert (a + b).value == Fraction(one) + Fraction(other)
    assert (a - other).value == Fraction(one) - Fraction(other)
    assert (one * b).value == Fraction(one) * Fraction(other)
    if other:
        assert (one / b).value == Fraction(one) / Fraction(other)


@some
@given(numbers, numbers)
def test_a_size_is_never_below_what_was_added_up(one, other):
    total = Exact.of(one) + Exact.of(other)

    assert total.size == pytest.approx(abs(one) + abs(other))
    assert total.size >= abs(float(total)) * (1 - 2**-50)


@pytest.mark.parametrize(
    ("number", "held"), [(5e-324, True), (2.0**-1022 + 5e-324, True), (2**53, True), (2**53 + 2, False)]
)
def test_the_smallest_and_the_largest_numbers_are_told_as_well(number, held):
    assert Exact.of(number).held_exactly is held
    assert not (Exact.of(5e-324) + 1).held_exactly


def test_sums_of_dyadic_numbers_within_53_bits_are_held_exactly_and_quotients_are_not():
    assert sum(map(Exact.of, [1, 0.5, -3.25])).held_exactly
    assert not (Exact.of(2**53) + Exact.of(0.5)).held_exactly
    assert not (Exact.of(1) / 2).held_exactly


def test_a_cancelled_sum_still_knows_that_it_was_rounded():
    gone = Exact.of(1e16) + Exact.of(0.1) - Exact.of(1e16)

    assert gone.value == Fraction(0.1)
    assert gone.size > 1e16
    assert not gone.held_exactly


def test_what_is_not_finite_meets_an_exact_number_as_floats_do():
    one = Exact.of(1)

    assert math.isnan(one + math.nan)
    assert one - math.inf == -math.inf
    assert math.inf * one == math.inf
    assert lifted([math.inf, (2, "name", None, True)])[1][0].value == 2


def test_whole_numbers_index_and_repeat():
    two = Exact.of(2)

    assert ["a", "b", "c"][two] == "c"
    assert [0] * two == [0, 0]
    assert list(range(5))[:two] == [0, 1]
    assert 5 % two == 1
    with pytest.raises(TypeError, match="1/2 is no whole number"):
        [][Exact.of(0.5)]


@some
@given(st.fractions(0, 10**6))
def test_a_root_is_exact_to_more_digits_than_a_float_has(square):
    found = root(Exact(square, float(square), 1, False)).value

    assert abs(found * found - square) <= square * Fraction(1, 2**150)
