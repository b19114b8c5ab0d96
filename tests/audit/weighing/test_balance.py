"""Effective weights: who weighs what against the fair share, and what is beyond doubt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failuremap.audit.weighing.balance import EVEN, TOTAL, Balance
from failuremap.audit.weighing.weigh import Term

LARGE = 0.02


def balance(counts, coefficients, totals=None, *, errors=1e-8, promise="mean", live=None, ranks=None, known=True):
    """The balance of contributions, one a rank unless `ranks` says otherwise; losses are means."""
    counts = np.array(counts, dtype=float)
    size = len(counts)
    totals = np.ones(size) if totals is None else np.array(totals, dtype=float)
    term = Term("loss", counts, totals, np.ones(size, dtype=bool), 1.0, known, 0.0)
    keys = [(rank, 0) for rank in range(size)] if ranks is None else ranks
    here = np.ones(size, dtype=bool) if live is None else np.array(live)
    return Balance(term, keys, np.array(coefficients, dtype=float), np.full(size, float(errors)), here, promise)


def test_a_weighted_mean_is_even_and_whole():
    right = balance([300, 100], [0.75, 0.25])

    assert (right.ratio, right.total, right.fair) == pytest.approx((1, 1, 1 / 400))
    assert (right.uneven, right.off) == (False, False)


def test_a_term_times_zero_is_even():
    assert (balance([300, 100], [0.5, 0.5], [0.0, 0.0]).ratio, balance([300, 100], [0.5, 0.5], [0.0, 1.0]).ratio) == (
        1.0,
        float("inf"),
    )


def test_parts_of_equally_many_sequences_are_not_weighed_by_them():
    alike = balance([300, 100], [0.5, 0.5])
    told = [replace(alike, term=replace(alike.term, rows_K=np.array(rows))) for rows in ([3.0, 3.0], [2.0, 2.0])]

    assert [one.by_rows for one in told] == [False, False]


def test_a_mean_of_means_is_uneven_and_whole():
    wrong = balance([300, 100], [0.5, 0.5])

    assert (wrong.ratio, wrong.total) == pytest.approx((3, 1))
    assert (wrong.uneven, wrong.off) == (True, False)


def test_a_scaled_weighted_mean_is_even_and_not_whole():
    wrong = balance([300, 100], [1.5, 0.5])

    assert (wrong.ratio, wrong.total) == pytest.approx((1, 2))
    assert (wrong.uneven, wrong.off) == (False, True)


@pytest.mark.parametrize("factor", [0.3, 1.0, 16.0])
def test_a_factor_that_all_units_share_hides_no_rule(factor):
    wrong = balance([300, 100], [0.5, 0.5], [factor, factor])

    assert wrong.uneven
    assert "mean" in wrong.followed(0, 1)


def test_the_weight_of_a_term_beside_others_is_no_division_by_the_ranks():
    half = balance([300, 100], [0.5, 0.5], [0.5, 0.5])

    assert "mean_over_ranks" in half.followed(0, 1)
    assert half.followed(0, 1, weighed=True) == ["mean", "rank_means_of_window_weighted"]


def test_a_contribution_without_a_gradient_hides_no_rule():
    silent = balance([300, 100, 50], [1 / 3, 1 / 3, 0.0], errors=1e-8, live=[True, True, False])
    silent = replace(silent, errors_K=np.array([1e-8, 1e-8, np.inf]))

    assert "mean" in silent.followed(0, 1)


@pytest.mark.parametrize("factor", [0.3, 1.0, 16.0])
def test_weights_of_no_rule_follow_none_whatever_their_factor(factor):
    assert balance([300, 100], [0.9, 0.1], [factor, factor]).followed(0, 1) == []


def test_an_even_total_that_is_off_is_compared_as_it_is():
    assert balance([300, 100], [0.75 * 0.3, 0.25 * 0.3]).followed(0, 1) == []


def test_a_sum_gives_each_unit_one():
    right = balance([3, 5], [1, 1], [3, 5], promise="sum")

    assert (right.ratio, right.total, right.fair, right.off) == (1, 1, 1, False)
    assert balance([3, 5], [0.5, 0.5], [3, 5], promise="sum").total == 0.5


counts_of = st.lists(st.integers(1, 10**6), min_size=1, max_size=8)


@settings(max_examples=50, deadline=None)
@given(counts_of)
def test_counts_over_their_sum_are_right_whatever_the_counts(counts):
    right = balance(counts, np.array(counts) / sum(counts))

    assert (right.uneven, right.off) == (False, False)


@settings(max_examples=50, deadline=None)
@given(counts_of)
def test_where_the_division_stands_does_not_matter(counts):
    shares = np.array(counts) / sum(counts)

    before, after = balance(counts, np.ones(len(counts)), shares), balance(counts, shares)

    np.testing.assert_allclose(before.weights_K, after.weights_K)


@settings(max_examples=50, deadline=None)
@given(counts_of, st.integers(0, 7))
def test_an_empty_contribution_with_a_coefficient_of_zero_changes_nothing(counts, place):
    shares = list(np.array(counts) / sum(counts))
    more, also = [*counts[:place], 0, *counts[place:]], [*shares[:place], 0, *shares[place:]]

    with_it, without = balance(more, also), balance(counts, shares)

    assert (with_it.ratio, with_it.unit_count) == (without.ratio, without.unit_count)
    assert with_it.total == pytest.approx(without.total)


def test_one_contribution_is_never_uneven():
    assert balance([300], [1]).ratio == 1
    assert balance([], []).ratio == 1


def test_weights_of_opposite_signs_are_infinitely_uneven():
    assert balance([300, 300], [1, -1]).ratio == np.inf


@pytest.mark.parametrize(("heavier", "uneven"), [(EVEN * 1.0001, True), (EVEN * 0.9999, False)])
def test_weights_are_uneven_above_half_a_per_cent(heavier, uneven):
    assert balance([1, 1], [0.5, 0.5 * heavier]).uneven is uneven


@pytest.mark.parametrize("errors", [1e-8, LARGE])
def test_weights_are_uneven_only_beyond_five_errors(errors):
    assert balance([1, 1], [0.5, 0.55], errors=0.5 * errors).uneven is (errors < LARGE)


@pytest.mark.parametrize(("factor", "off"), [(1 + TOTAL * 1.01, True), (1 - TOTAL * 0.99, False)])
def test_the_total_is_off_above_one_per_cent(factor, off):
    assert balance([1, 1], [0.5 * factor] * 2).off is off


def test_the_total_is_off_only_beyond_five_errors():
    assert not balance([1, 1], [0.52, 0.52], errors=0.5 * LARGE).off


def test_a_total_of_unknown_scale_is_never_off():
    assert not balance([1, 1], [4, 4], known=False).off


def test_what_does_not_arrive_is_in_the_total_and_not_in_the_ratio():
    dropped = balance([1, 1], [0.5, 0], live=[True, False])

    assert (dropped.ratio, dropped.total, dropped.unit_count) == (1, 0.5, 2)


@pytest.mark.parametrize(
    ("coefficients", "rule"),
    [
        ([0.75, 0.25], "weighted_mean"),
        ([0.5, 0.5], "mean"),
        ([1, 1], "sum"),
        ([0.375, 0.125], "weighted_mean_over_ranks"),
    ],
)
def test_the_rule_that_is_followed_is_found(coefficients, rule):
    assert rule in balance([300, 100], coefficients).followed(0, 1)


def test_weights_that_no_rule_gives_follow_none():
    assert balance([300, 100], [0.61, 0.17]).followed(0, 1) == []


def test_the_cells_hold_count_coefficient_weight_and_share():
    first, second = balance([300, 100], [0.5, 0.5]).cells()

    assert (first.rank, first.micro_batch, first.count, first.coefficient) == (0, 0, 300, 0.5)
    assert (first.loss_weight, first.effective_weight) == pytest.approx((1 / 300, 0.5 / 300))
    assert (first.share, second.share) == pytest.approx((2 / 3, 2))


def test_a_coefficient_that_is_not_known_is_no_number():
    (cell,) = balance([300], [0.5], errors=np.inf).cells()

    assert (cell.coefficient, cell.coefficient_error, cell.effective_weight, cell.share) == (None, None, None, None)
    assert cell.count == 300


def test_an_empty_contribution_has_no_share():
    (cell,) = balance([0], [0.5]).cells()

    assert (cell.count, cell.effective_weight, cell.share) == (0, None, None)


# ---- coefficients in proportion to something


def test_coefficients_in_proportion_to_counts_go_by_them():
    assert balance([300, 100], [0.75, 0.25]).by_counts
    assert balance([300, 100, 0], [0.75, 0.25, 0.9], live=[True, True, False]).by_counts


@pytest.mark.parametrize(
    ("counts", "coefficients"), [([300, 100], [0.5, 0.5]), ([200, 200], [0.5, 0.5]), ([300], [1.0])], ids=str
)
def test_negative_control_equal_coefficients_or_counts_do_not_say_that_they_go_by_them(counts, coefficients):
    assert not balance(counts, coefficients).by_counts


def test_coefficients_that_are_not_sure_do_not_go_by_counts():
    assert not balance([300, 100], [0.75, 0.25], errors=0.05).by_counts


def with_rows(counts, coefficients, rows):
    made = balance(counts, coefficients)
    return replace(made, term=replace(made.term, rows_K=None if rows is None else np.array(rows, dtype=float)))


def test_weights_in_proportion_to_rows_go_by_them():
    assert with_rows([300, 100], [0.25, 0.75], [2, 6]).by_rows


@pytest.mark.parametrize(
    ("coefficients", "rows"),
    [([0.25, 0.75], [2, 5]), ([0.75, 0.25], [3, 1]), ([0.25, 0.75], None), ([0.25, 0.75], [0, 0])],
    ids=["other rows", "units weigh the same", "no rows are known", "no rows"],
)
def test_negative_control_other_weights_do_not_go_by_rows(coefficients, rows):
    assert not with_rows([300, 100], coefficients, rows).by_rows
