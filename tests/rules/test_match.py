"""Matching: every rule that fits is returned, none that does not, and what would tell them apart."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failuremap.errors import InvalidArgument
from failuremap.rules import KNOWN, Layout, Rule, indistinguishable, match, what_separates

EQUAL_4X4 = Layout.grid({(rank, mb): 8 for rank in range(4) for mb in range(4)})
UNEQUAL = Layout.grid({(0, 0): 1, (0, 1): 2, (0, 2): 3, (1, 0): 5, (1, 1): 6, (1, 2): 7}, full_window=4)


def names(weights: list[float], layout: Layout, error: float = 0.0, tolerance: float = 0.01) -> set[str]:
    found = match(weights, [error] * len(weights), layout, tolerance=tolerance)
    return {one.rule.name for one in found}


def exact(name: str, layout: Layout) -> list[float]:
    return [float(weight) for weight in KNOWN[name].coefficients(layout)]


@pytest.mark.parametrize("name", KNOWN)
def test_exact_weights_match_their_rule_and_only_rules_equal_to_it(name: str) -> None:
    same = {other for other in KNOWN if KNOWN[other].coefficients(UNEQUAL) == KNOWN[name].coefficients(UNEQUAL)}

    assert names(exact(name, UNEQUAL), UNEQUAL) == same


def test_rules_that_are_equal_on_this_layout_are_all_returned() -> None:
    found = names(exact("weighted_mean_times_ranks", EQUAL_4X4), EQUAL_4X4)

    assert {"weighted_mean_times_ranks", "weighted_mean_times_window", "sum_over_ranks_mean_over_window"} <= found
    assert "weighted_mean" not in found


def test_weights_just_inside_the_tolerance_match_and_just_outside_do_not() -> None:
    layout = Layout.from_counts([1, 3])

    assert "weighted_mean" in names([0.25, 0.75 * 1.0099], layout)
    assert "weighted_mean" not in names([0.25, 0.75 * 1.0101], layout)
    assert "weighted_mean" in names([0.25 + 0.0074, 0.75], layout)
    assert "weighted_mean" not in names([0.25 + 0.0076, 0.75], layout)


def test_five_standard_errors_widen_the_tolerance() -> None:
    layout = Layout.from_counts([1, 3])

    assert "weighted_mean" in names([0.25, 0.7549], layout, error=0.001, tolerance=0)
    assert "weighted_mean" not in names([0.25, 0.7551], layout, error=0.001, tolerance=0)


def test_the_deviation_is_a_share_of_the_largest_weight() -> None:
    (found,) = match([0.25, 0.753], [0, 0], Layout.from_counts([1, 3]), [KNOWN["weighted_mean"]])

    assert found.worst_deviation == pytest.approx(0.004)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_weight_or_error_that_is_not_finite_matches_nothing(bad: float) -> None:
    assert match([bad, 0.5], [0, 0], Layout.from_counts([1, 1])) == []
    assert match([0.5, 0.5], [0, bad], Layout.from_counts([1, 1])) == []


@given(shift=st.floats(0.05, 3))
def test_negative_control_shifted_weights_do_not_match(shift: float) -> None:
    layout = Layout.from_counts([2, 2, 9])

    assert "weighted_mean" not in names([weight + shift for weight in exact("weighted_mean", layout)], layout)


@pytest.mark.parametrize(
    ("measured", "errors", "tolerance", "message"),
    [
        ([1.0], [0, 0], 0.01, r"^len\(measured\)=1 but the layout has 2 contributions; give one for each\.$"),
        ([1.0, 1.0], [0], 0.01, r"^len\(errors\)=1 but the layout has 2 contributions; "),
        ([1.0, 1.0], [0, -1], 0.01, r"^errors\[1\]=-1 is negative; a standard error is 0 or more\.$"),
        ([1.0, 1.0], [0, 0], -0.1, r"^tolerance=-0.1 is not 0 or more; it is a share of the largest weight\.$"),
        ([1.0, 1.0], [0, 0], math.nan, r"^tolerance=nan is not 0 or more; "),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    measured: list[float], errors: list[float], tolerance: float, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        match(measured, errors, Layout.from_counts([1, 1]), tolerance=tolerance)


def test_rules_that_a_layout_cannot_tell_apart_are_grouped() -> None:
    rules = [KNOWN[name] for name in ("weighted_mean", "mean", "sum", "unit_sum")]

    assert indistinguishable(Layout.from_counts([4, 4]), rules) == [{"weighted_mean", "mean"}]
    assert indistinguishable(Layout.from_counts([4, 5]), rules) == []


@pytest.mark.parametrize(
    ("first", "second", "layout", "phrase"),
    [
        ("weighted_mean", "mean", Layout.from_counts([4, 4]), "unequal counts on the ranks"),
        ("weighted_mean", "mean", Layout.grid({(0, 0): 4, (0, 1): 4}), "unequal counts in the micro-batches"),
        (
            "weighted_mean_times_ranks",
            "weighted_mean_times_window",
            EQUAL_4X4,
            "another number of micro-batches than ranks",
        ),
        ("weighted_mean", "weighted_mean_over_ranks", Layout.from_counts([4]), "more than one rank"),
        (
            "weighted_mean",
            "weighted_mean_over_window",
            Layout.from_counts([4, 3]),
            "more than one micro-batch in a window",
        ),
        ("mean", "mean_over_full_window", EQUAL_4X4, "a window shorter than the others"),
        ("first_rank", "own_rank", Layout.from_counts([4, 3]), "the update of another rank"),
        ("mean", "sum", Layout.from_counts([4, 3]), "these counts"),
        ("mean", "mean", Layout.from_counts([4, 3]), ""),
    ],
)
def test_what_separates_two_rules_is_said_in_one_phrase(first: str, second: str, layout: Layout, phrase: str) -> None:
    assert what_separates(KNOWN[first], KNOWN[second], layout) == phrase


def test_two_changes_are_named_where_one_is_not_enough() -> None:
    one = KNOWN["rank_means_of_window_weighted"]

    assert what_separates(one, KNOWN["weighted_mean"], Layout.from_counts([4])) == (
        "more than one rank and unequal counts on the ranks"
    )


def test_negative_control_a_renamed_rule_is_not_separated_from_itself() -> None:
    twin = Rule("twin", "twin", "n/N", KNOWN["weighted_mean"].coefficients)

    assert what_separates(twin, KNOWN["weighted_mean"], UNEQUAL) == ""
