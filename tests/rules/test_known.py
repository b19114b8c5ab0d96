"""The known rules: their formulas on a layout worked by hand, and the laws they keep."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failuremap.errors import InvalidArgument
from failuremap.rules import KNOWN, Contribution, Layout, known_rule, what_separates, without_rank

# Two ranks x three micro-batches; N = 24, N_0 = 6, N_1 = 18, N_m = 6, 8, 10.
UNEQUAL = Layout.grid({(0, 0): 1, (0, 1): 2, (0, 2): 3, (1, 0): 5, (1, 1): 6, (1, 2): 7}, full_window=4)
BY_HAND = {
    "weighted_mean": [
        Fraction(1, 24),
        Fraction(2, 24),
        Fraction(3, 24),
        Fraction(5, 24),
        Fraction(6, 24),
        Fraction(7, 24),
    ],
    "unit_sum": [1, 2, 3, 5, 6, 7],
    "mean": [Fraction(1, 6)] * 6,
    "sum": [1] * 6,
    "mean_over_ranks_sum_over_window": [Fraction(1, 2)] * 6,
    "sum_over_ranks_mean_over_window": [Fraction(1, 3)] * 6,
    "rank_means_of_window_weighted": [
        Fraction(1, 12),
        Fraction(2, 12),
        Fraction(3, 12),
        Fraction(5, 36),
        Fraction(6, 36),
        Fraction(7, 36),
    ],
    "window_means_of_rank_weighted": [
        Fraction(1, 18),
        Fraction(2, 24),
        Fraction(3, 30),
        Fraction(5, 18),
        Fraction(6, 24),
        Fraction(7, 30),
    ],
    "sum_of_rank_weighted_windows": [
        Fraction(1, 6),
        Fraction(2, 6),
        Fraction(3, 6),
        Fraction(5, 18),
        Fraction(6, 18),
        Fraction(7, 18),
    ],
    "sum_of_globally_weighted_micro_batches": [
        Fraction(1, 6),
        Fraction(2, 8),
        Fraction(3, 10),
        Fraction(5, 6),
        Fraction(6, 8),
        Fraction(7, 10),
    ],
    "first_micro_batch": [Fraction(1, 2), 0, 0, Fraction(1, 2), 0, 0],
    "last_micro_batch": [0, 0, Fraction(1, 2), 0, 0, Fraction(1, 2)],
    "first_rank": [Fraction(1, 3)] * 3 + [0] * 3,
    "own_rank": [Fraction(1, 3)] * 3 + [0] * 3,
    "own_rank_weighted": [Fraction(1, 6), Fraction(2, 6), Fraction(3, 6), 0, 0, 0],
    "count_weighted_over_ranks": [Fraction(1, 2), 1, Fraction(3, 2), Fraction(5, 2), 3, Fraction(7, 2)],
    "counts_twice": [Fraction(n * n, 24) for n in (1, 2, 3, 5, 6, 7)],
    "counts_twice_over_ranks": [Fraction(n * n, 48) for n in (1, 2, 3, 5, 6, 7)],
    "rank_counts_twice": [Fraction(k, 24) for k in (1 * 6, 2 * 6, 3 * 6, 5 * 18, 6 * 18, 7 * 18)],
    "rank_counts_twice_over_ranks": [Fraction(k, 48) for k in (1 * 6, 2 * 6, 3 * 6, 5 * 18, 6 * 18, 7 * 18)],
    "counts_twice_over_mean_count": [Fraction(6 * n * n, 24 * 24) for n in (1, 2, 3, 5, 6, 7)],
    "mean_over_full_window": [Fraction(1, 8)] * 6,
    "weighted_mean_over_full_window": [
        Fraction(1, 32),
        Fraction(2, 32),
        Fraction(3, 32),
        Fraction(5, 32),
        Fraction(6, 32),
        Fraction(7, 32),
    ],
    "mean_over_ranks": [Fraction(1, 12)] * 6,
    "mean_over_window": [Fraction(1, 18)] * 6,
    "mean_over_ranks_and_window": [Fraction(1, 36)] * 6,
    "mean_over_ranks_twice": [Fraction(1, 24)] * 6,
    "mean_over_window_twice": [Fraction(1, 54)] * 6,
    "mean_times_ranks_twice": [Fraction(4, 6)] * 6,
    "mean_times_window_twice": [Fraction(9, 6)] * 6,
}
BY_HAND |= {
    "reduced_again": [4, 2, 1, 4, 2, 1],
    "weighted_reduced_again": [Fraction(k, 24) for k in (4 * 1, 2 * 2, 3, 4 * 5, 2 * 6, 7)],
    "reduced_again_over_ranks": [2, 1, Fraction(1, 2), 2, 1, Fraction(1, 2)],
    "reduced_again_over_window": [Fraction(k, 3) for k in (4, 2, 1, 4, 2, 1)],
    "reduced_again_over_ranks_and_window": [Fraction(k, 6) for k in (4, 2, 1, 4, 2, 1)],
}
SCALES = {"ranks": 2, "window": 3, "ranks_and_window": 6, "ranks_twice": 4, "window_twice": 9}
for _name, _scale in SCALES.items():
    for _base in ("weighted_mean", "rank_means_of_window_weighted", "window_means_of_rank_weighted"):
        BY_HAND[f"{_base}_times_{_name}"] = [_scale * weight for weight in BY_HAND[_base]]
        BY_HAND[f"{_base}_over_{_name}"] = [weight / Fraction(_scale) for weight in BY_HAND[_base]]
# Under names of their own: n/N_r and n/N_m.
del BY_HAND["rank_means_of_window_weighted_times_ranks"], BY_HAND["window_means_of_rank_weighted_times_window"]

counts = st.one_of(st.integers(0, 9), st.fractions(0, 9, max_denominator=8))
grids = st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
    lambda shape: st.lists(counts, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]).map(
        lambda values: Layout.grid({divmod(k, shape[1]): count for k, count in enumerate(values)})
    )
)


def test_every_known_rule_is_worked_by_hand() -> None:
    assert set(BY_HAND) == set(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_a_rule_follows_its_formula(name: str) -> None:
    actual = KNOWN[name].coefficients(UNEQUAL)

    assert list(actual) == BY_HAND[name]
    assert all(isinstance(weight, Fraction) for weight in actual)


def test_negative_control_another_rule_does_not_follow_the_formula() -> None:
    assert list(KNOWN["mean"].coefficients(UNEQUAL)) != BY_HAND["weighted_mean"]


@pytest.mark.parametrize("name", KNOWN)
def test_a_rule_has_a_title_and_a_formula(name: str) -> None:
    rule = KNOWN[name]

    assert rule.name == name
    assert rule.formula
    assert "{" not in rule.words("token")
    assert "{" not in rule.title.replace("{unit}s", "")


def test_a_title_takes_the_unit_of_the_job() -> None:
    assert KNOWN["weighted_mean"].words("token") == "mean over all tokens"


@given(layout=grids, data=st.data())
def test_permuting_contributions_permutes_weights(layout: Layout, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(layout.contributions))))
    permuted = Layout(tuple(layout.contributions[k] for k in order))

    straight = {name: rule.coefficients(layout) for name, rule in KNOWN.items()}

    assert {name: rule.coefficients(permuted) for name, rule in KNOWN.items()} == {
        name: tuple(weights[k] for k in order) for name, weights in straight.items()
    }


@given(layout=grids)
def test_weights_of_a_weighted_mean_sum_to_one_or_to_nothing(layout: Layout) -> None:
    total = sum(KNOWN["weighted_mean"].coefficients(layout))

    assert total == (1 if layout.total_count else 0)


@given(layout=grids, share=st.fractions(0, 1, max_denominator=6))
def test_splitting_a_contribution_leaves_the_weighted_mean_of_its_units(layout: Layout, share: Fraction) -> None:
    first, rest = layout.contributions[0], layout.contributions[1:]
    part = share * Fraction(first.count)
    halves = (
        Contribution(first.rank, first.micro_batch, part),
        Contribution(first.rank, 99, Fraction(first.count) - part),
    )

    whole = KNOWN["weighted_mean"].coefficients(layout)
    split = KNOWN["weighted_mean"].coefficients(Layout(halves + rest))

    assert split[0] + split[1] == whole[0]
    assert split[2:] == whole[1:]


def test_negative_control_splitting_a_contribution_changes_the_mean_of_means() -> None:
    assert KNOWN["mean"].coefficients(Layout.from_counts([4, 4])) != KNOWN["mean"].coefficients(
        Layout.from_counts([2, 2, 4])
    )


@given(layout=grids)
def test_a_contribution_without_units_weighs_nothing_in_a_weighted_rule(layout: Layout) -> None:
    weighted = [rule for rule in KNOWN.values() if "n/" in rule.formula]
    empty = [k for k, count in enumerate(layout.counts) if count == 0]

    assert len(weighted) > 10
    assert [rule.name for rule in weighted if any(rule.coefficients(layout)[k] for k in empty)] == []


def test_an_empty_layout_has_no_weights() -> None:
    assert {rule.coefficients(Layout(())) for rule in KNOWN.values()} == {()}


def test_no_two_known_rules_are_the_same() -> None:
    layout = Layout.from_counts([4, 4])

    assert [pair for pair in combinations(KNOWN.values(), 2) if not what_separates(*pair, layout)] == []


def test_own_rank_is_that_of_the_observer() -> None:
    assert KNOWN["own_rank"].coefficients(Layout.from_counts([3, 5]).seen_by(1)) == (0, 1)
    assert KNOWN["first_rank"].coefficients(Layout.from_counts([3, 5]).seen_by(1)) == (1, 0)


def test_a_missing_rank_weighs_nothing_and_the_others_stay() -> None:
    assert without_rank(KNOWN["mean"], 1).coefficients(Layout.from_counts([3, 5, 8])) == (
        Fraction(1, 3),
        0,
        Fraction(1, 3),
    )


def test_a_missing_rank_may_be_renormalised_and_says_so() -> None:
    rule = without_rank(KNOWN["weighted_mean"], 0, renormalised=True)

    assert rule.coefficients(Layout.from_counts([3, 5, 15])) == (0, Fraction(1, 4), Fraction(3, 4))
    assert rule.words("token") == "mean over all tokens of those that are left, without rank 0"
    assert rule.name == "weighted_mean_without_rank_0_renormalised"


def test_an_unknown_rule_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match=r"^rule='avg' is not known; expected one of: weighted_mean, unit_sum, "):
        known_rule("avg")


def test_a_known_rule_is_found_by_name() -> None:
    assert known_rule("mean") is KNOWN["mean"]
