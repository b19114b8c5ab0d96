"""Estimates over clusters: closed forms, enumeration, simulated coverage, and naive forms that fail the same tests."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, t

from failuremap.errors import InvalidArgument
from failuremap.score.statistics import difference, pass_at_k, proportion, t_quantile

CLUSTER_SIZES = (10, 9, 7, 7, 5, 3, 3, 3, 2)  # those of the open suite, about
counts = st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))
clustered = st.lists(st.tuples(st.integers(0, 4).map(lambda x: Fraction(x, 4)), st.sampled_from("abcd")), min_size=1)


@given(counts)
def test_pass_at_k_is_the_share_of_all_choices_of_k_samples_with_a_right_one(numbers):
    n, c, k = numbers
    choices = [any(place < c for place in chosen) for chosen in itertools.combinations(range(n), k)]

    assert pass_at_k(n, c, k) == Fraction(sum(choices), len(choices))


def test_the_biased_form_of_pass_at_k_is_told_from_it():
    assert pass_at_k(5, 2, 3) != 1 - (1 - Fraction(2, 5)) ** 3


def test_pass_at_k_has_no_bias_over_binomial_samples():
    n, k, chance = 6, 3, Fraction(1, 3)
    expected = sum(math.comb(n, c) * chance**c * (1 - chance) ** (n - c) * pass_at_k(n, c, k) for c in range(n + 1))

    assert expected == 1 - (1 - chance) ** k


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4)])
def test_pass_at_k_refuses_counts_that_contradict_each_other(n, c, k):
    with pytest.raises(InvalidArgument):
        pass_at_k(n, c, k)


def test_pass_at_k_says_which_numbers_it_refuses():
    with pytest.raises(InvalidArgument, match=r"k=4 with sample_count=3; pass@k needs k samples or more, and k >= 1\."):
        pass_at_k(3, 1, 4)


@pytest.mark.parametrize("degrees", [1, 2, 3, 8, 9, 60])
@pytest.mark.parametrize("probability", [0.5, 0.6, 0.975, 0.9995])
def test_the_quantile_is_that_of_students_t(probability, degrees):
    assert t_quantile(probability, degrees) == pytest.approx(t.ppf(probability, degrees), rel=1e-11, abs=1e-11)


@given(st.lists(st.sampled_from([0, 1]), min_size=2))
def test_with_a_cluster_for_each_item_the_error_is_the_usual_one(values):
    found = proportion(values, [str(place) for place in range(len(values))])

    assert found.standard_error == pytest.approx(statistics.stdev(values) / math.sqrt(len(values)))


@given(clustered, st.randoms())
def test_neither_order_nor_the_names_of_the_clusters_matter(items, source):
    shuffled = source.sample(items, len(items))
    names = {"a": "z", "b": "y", "c": "x", "d": "w"}

    assert proportion(*zip(*items, strict=True)) == proportion(
        [value for value, _ in shuffled], [names[cluster] for _, cluster in shuffled]
    )


def test_copies_of_an_item_in_its_cluster_tell_nothing_new():
    once = proportion([1, 0, 1, 1], "abcd")
    thrice = proportion([1, 0, 1, 1] * 3, "abcd" * 3)

    assert thrice.standard_error == pytest.approx(once.standard_error)
    assert proportion([1, 0, 1, 1] * 3, [str(i) for i in range(12)]).standard_error < once.standard_error


@given(clustered)
def test_a_difference_from_itself_is_nothing_and_claims_no_interval(items):
    values, clusters = zip(*items, strict=True)
    found = difference(values, values, clusters)

    assert (found.value, found.low, found.high) == (0.0, None, None)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from("abc")), min_size=1))
def test_a_difference_changes_its_sign_with_the_order_of_the_systems(items):
    ours, theirs, clusters = zip(*items, strict=True)
    found, turned = difference(ours, theirs, clusters), difference(theirs, ours, clusters)

    assert found.value == -turned.value
    assert found.standard_error == turned.standard_error


def test_pairing_makes_the_error_smaller_where_both_find_the_same_hard():
    source = random.Random(1)
    ours = [source.random() < 0.5 for _ in range(40)]
    theirs = [one if source.random() < 0.9 else not one for one in ours]
    clusters = [str(place % 8) for place in range(40)]

    apart = math.hypot(proportion(ours, clusters).standard_error, proportion(theirs, clusters).standard_error)
    assert difference(ours, theirs, clusters).standard_error < apart / 2


@pytest.mark.parametrize(("value", "count"), [(0, 1), (0, 9), (1, 9)])
def test_where_nothing_varies_the_interval_is_the_exact_one_of_the_clusters(value, count):
    found = proportion([value] * 3 * count, [str(place % count) for place in range(3 * count)])
    exact = binomtest(value * count, count).proportion_ci(method="exact")

    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))


def test_one_cluster_tells_no_error_and_no_interval():
    found = proportion([1, 0], ["a", "a"])

    assert (found.value, found.standard_error, found.low, found.high) == (0.5, None, None, None)


def test_no_value_and_a_cluster_too_few_are_refused():
    with pytest.raises(InvalidArgument, match="0 values in 0 clusters; expected one value or more"):
        proportion([], [])
    with pytest.raises(InvalidArgument, match="2 values in 1 clusters"):
        proportion([1, 0], ["a"])
    with pytest.raises(InvalidArgument, match="2 values of ours and 1 of theirs; a pair needs both"):
        difference([1, 0], [1], ["a", "a"])


def coverage(interval, trials=300):
    """Return how often an interval holds the true mean, 0.5, where the items of a cluster stand or fall together."""
    held = 0
    for trial in range(trials):
        source = random.Random(trial)
        values, clusters = [], []
        for name, size in enumerate(CLUSTER_SIZES):
            chance = source.choice([0.2, 0.8])
            values += [int(source.random() < chance) for _ in range(size)]
            clusters += [str(name)] * size
        low, high = interval(values, clusters)
        held += low <= 0.5 <= high
    return held / trials


def clustered_interval(values, clusters):
    found = proportion(values, clusters)
    return found.low, found.high


def naive_interval(values, clusters):
    """Take the items as independent, as a mean's usual error does."""
    return clustered_interval(values, [str(place) for place in range(len(values))])


def test_the_clustered_interval_covers_about_what_it_says_and_the_naive_one_does_not():
    assert coverage(clustered_interval) > 0.89
    assert coverage(naive_interval) < 0.80
