"""Layouts: what they count, and what they refuse."""

import math
from fractions import Fraction

import pytest

from failuremap.errors import InvalidArgument
from failuremap.rules import Contribution, Layout, known_rule

GRID = Layout.grid({(0, 0): 1, (0, 1): 2, (2, 0): 5, (2, 1): Fraction(1, 2)}, full_window=4)


def test_a_layout_counts_units_by_rank_and_micro_batch() -> None:
    assert (GRID.rank_count, GRID.micro_batch_count, GRID.full_window_count) == (2, 2, 4)
    assert GRID.total_count == Fraction(17, 2)
    assert (GRID.rank_total(0), GRID.rank_total(2)) == (3, Fraction(11, 2))
    assert (GRID.micro_batch_total(0), GRID.micro_batch_total(1)) == (6, Fraction(5, 2))
    assert GRID.rank_total(1) == 0


def test_a_window_is_full_unless_it_is_said_to_be_short() -> None:
    assert Layout.from_counts([3, 5]).full_window_count == 1


def test_a_float_count_is_taken_exactly() -> None:
    assert Layout.from_counts([0.1]).total_count == Fraction(0.1)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (
            -1,
            r"^count=-1 is negative or not finite; a count is .* 0 or more \(rank 1, micro-batch 2\)\.$",
        ),
        (math.nan, r"^count=nan is negative or not finite; "),
        (math.inf, r"^count=inf is negative or not finite; "),
        (True, r"^count=True is no number; "),
        ("3", r"^count='3' is no number; "),
    ],
)
def test_a_count_that_counts_nothing_is_refused(count: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Contribution(1, 2, count)  # type: ignore[arg-type]


def test_two_contributions_in_one_cell_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"^contributions: \(rank, micro_batch\)=\(0, 1\) is there 2 times; "):
        Layout((Contribution(0, 1, 3), Contribution(0, 1, 4)))


def test_a_window_without_micro_batches_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"^full_window=0 is below 1; a window has 1 micro-batch or more\.$"):
        Layout.grid({(0, 0): 1}, full_window=0)


def test_a_count_beyond_the_largest_float_is_a_count() -> None:
    most, least = known_rule("weighted_mean").coefficients(Layout.from_counts([10**400, 1]))

    assert (most, least) == (Fraction(10**400, 10**400 + 1), Fraction(1, 10**400 + 1))
