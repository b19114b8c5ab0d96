"""Recognition: each mechanism on its own evidence alone, several where the evidence is the same, none on right jobs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from failuremap.catalogue import Sign, mechanisms, recognise
from failuremap.rules import KNOWN, Layout, match

MEAN, SUM, TWICE = Sign.COEFFICIENTS_MEAN, Sign.COEFFICIENTS_SUM, Sign.COEFFICIENTS_MEAN_TWICE
RANKS, WINDOW = Sign.UNEQUAL_COUNTS_ACROSS_RANKS, Sign.UNEQUAL_COUNTS_ACROSS_MICRO_BATCHES

TWO = Layout.from_counts([3, 5])
EQUAL_TWO = Layout.from_counts([4, 4])
WINDOW_OF_THREE = Layout.grid({(0, 0): 2, (0, 1): 3, (0, 2): 7})
TWO_BY_THREE = Layout.grid({(0, 0): 1, (0, 1): 2, (0, 2): 3, (1, 0): 5, (1, 1): 6, (1, 2): 7}, full_window=4)
TWO_BY_THREE_OF_TWO = replace(TWO_BY_THREE, full_window=2)
TWO_BY_TWO = Layout.grid({(0, 0): 1, (0, 1): 2, (1, 0): 5, (1, 1): 6})
EQUAL_TWO_BY_TWO = Layout.grid({(rank, mb): 4 for rank in range(2) for mb in range(2)})


def rules_of(name: str, layout: Layout) -> set[str]:
    """Return all known rules that weights of this rule, as an audit measures them, are equal to."""
    weights = [float(weight) for weight in KNOWN[name].coefficients(layout)]
    return {found.rule.name for found in match(weights, [1e-8] * len(weights), layout)}


def found(rules: set[str], *signs: Sign, promise: str = "mean") -> set[str]:
    return {entry.slug for entry in recognise(rules, signs, promise=promise)}


def by_rule(name: str, layout: Layout, *signs: Sign, promise: str = "mean") -> set[str]:
    return found(rules_of(name, layout), *signs, promise=promise)


OWN_EVIDENCE = {
    "replica-means-ignore-counts": by_rule("mean", TWO, MEAN, RANKS, Sign.DDP_PRESENT),
    "partials-averaged": by_rule("count_weighted_over_ranks", TWO, MEAN, promise="sum"),
    "mean-of-microbatch-means": by_rule("mean", WINDOW_OF_THREE, WINDOW, Sign.SINGLE_RANK, Sign.NO_DDP),
    "replicas-summed": by_rule("weighted_mean_times_ranks", TWO, SUM, RANKS),
    "compensation-without-cause": by_rule("weighted_mean_times_ranks", TWO, SUM, RANKS, Sign.LOSS_TIMES_WORLD),
    "global-denominator-averaged-again": by_rule("weighted_mean_over_ranks", TWO, MEAN, RANKS),
    "averaged-over-ranks-twice": by_rule("mean_over_ranks", EQUAL_TWO, TWICE),
    "window-sum-not-mean": by_rule("weighted_mean_times_window", TWO_BY_THREE, MEAN, RANKS, WINDOW),
    "divided-twice": by_rule("weighted_mean_over_window", TWO_BY_THREE, MEAN, RANKS, WINDOW),
    "accumulator-overwritten": by_rule("last_micro_batch", TWO_BY_THREE, Sign.LAST_MICRO_BATCH_ONLY, RANKS, WINDOW),
    "only-first-microbatch-kept": by_rule("first_micro_batch", TWO_BY_THREE, Sign.FIRST_MICRO_BATCH_ONLY, RANKS),
    "microbatch-dropped": found(set(), Sign.MICRO_BATCH_MISSING, RANKS, WINDOW),
    "rank-dropped": found(set(), Sign.RANK_MISSING, RANKS, MEAN),
    "first-rank-broadcast": by_rule("first_rank", TWO, Sign.FIRST_RANK_ONLY, RANKS),
    "never-synchronised": by_rule("own_rank", TWO, Sign.OWN_RANK_ONLY, Sign.NO_DDP, RANKS),
    "norm-counts-copies": found(rules_of("weighted_mean", TWO), Sign.COPIES_IN_NORM, RANKS),
    "gathered-part-detached": found(rules_of("weighted_mean", TWO), Sign.GATHERED_WITHOUT_GRADIENT, RANKS),
    "rank-local-step-decision": found(rules_of("weighted_mean", TWO), Sign.STEPS_DIFFER, RANKS),
    "result-lost": by_rule("own_rank", TWO, Sign.OWN_RANK_ONLY, Sign.NO_DDP, Sign.RESULT_UNUSED),
    "read-before-reduced": by_rule("own_rank", TWO, Sign.OWN_RANK_ONLY, Sign.NO_DDP, Sign.REDUCTION_UNAWAITED),
    "half-reduced-after-failure": found(
        set(), Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS, Sign.NO_DDP, Sign.REDUCTION_FAILED
    ),
    "expert-divisor-misses-ep": found(set(), Sign.SOME_PARAMETERS, Sign.DIVIDED_BY_OWN_GROUP),
    "sync-on-wrong-microbatch": found(set(), Sign.UNSYNCHRONISED_TAIL, Sign.DDP_PRESENT, Sign.REPLICAS_DIFFER_LATER),
    "forward-outside-sync-context": found(
        rules_of("own_rank", TWO), Sign.OWN_RANK_ONLY, Sign.FORWARD_UNSYNCHRONISED, Sign.DDP_PRESENT
    ),
    "param-without-hook": found(
        rules_of("own_rank", TWO), Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS, Sign.DDP_PRESENT, Sign.REPLICAS_DIFFER
    ),
    "reducer-bypassed": found(
        rules_of("own_rank", TWO), Sign.OWN_RANK_ONLY, Sign.DDP_PRESENT, Sign.FORWARD_BYPASSED_WRAPPER, RANKS
    ),
    "stale-gradient-leaks": found(rules_of("weighted_mean", TWO), Sign.PREVIOUS_UPDATE_ADDED, RANKS),
    "previous-gradient-applied": found(set(), Sign.PREVIOUS_UPDATE_ONLY, RANKS),
    "clip-in-wrong-place": found(set(), Sign.CLIPPED_BEFORE_REDUCTION, RANKS, WINDOW),
    "zero-total": found(set(), Sign.NONFINITE, Sign.EMPTY_CONTRIBUTION, RANKS),
    "divisor-counts-idle-parts": found(set(), Sign.IDLE_UNITS_COUNTED, RANKS),
    "partial-window-full-divisor": by_rule("mean_over_full_window", TWO_BY_THREE, Sign.SHORT_WINDOW, RANKS, WINDOW),
    "same-data-on-all-ranks": found(rules_of("weighted_mean", EQUAL_TWO), Sign.SAME_CONTRIBUTIONS),
    "replicas-start-different": found(
        rules_of("weighted_mean", TWO), Sign.REPLICAS_DIFFER, Sign.REPLICAS_DIFFER_AT_START, RANKS
    ),
    "reduced-again": by_rule("reduced_again_over_window", TWO_BY_THREE, RANKS, WINDOW),
    "count-applied-twice": by_rule("counts_twice", TWO, SUM, RANKS),
    "late-division": by_rule("count_weighted_over_ranks", TWO, MEAN, RANKS),
    "norm-misses-shards": found(set(), Sign.SHARDS_SCALED_APART, RANKS),
    "tied-copies-not-summed": found(set(), Sign.COPIES_APART, RANKS),
    "partials-not-reduced": found(set(), Sign.PARTIAL_ONLY, Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS, Sign.NO_DDP),
    "unused-on-last-microbatch": found(
        set(), Sign.UNUSED_IN_LAST_MICRO_BATCH, Sign.SOME_PARAMETERS, Sign.OWN_RANK_ONLY, Sign.DDP_PRESENT
    ),
    "misaligned-shards": found(set(), Sign.OTHER_PARAMETER_ADDED, Sign.SOME_PARAMETERS, RANKS),
    "average-divides-by-elements": found(set(), Sign.DIVIDED_BY_ELEMENTS, Sign.SOME_PARAMETERS),
    "sparse-path-own-scale": found(set(), Sign.SPARSE_APART, Sign.SOME_PARAMETERS),
    "divide-factor-on-root-only": found(set(), Sign.MODULES_APART, Sign.SOME_PARAMETERS),
    "weight-kind-mismatch": found(set(), Sign.WEIGHED_BY_SEQUENCES, MEAN, RANKS),
    "zero-count-times-nan": found(set(), Sign.NONFINITE, Sign.EMPTY_CONTRIBUTION, Sign.WEIGHED_BY_COUNTS, RANKS),
    "denominator-window-mismatch": found(set(), Sign.BORROWED_COUNT),
    "departed-rank-counted": found(set(), Sign.DEPARTED_RANK_COUNTED),
    "aux-term-other-denominator": found(set(), Sign.TERM_GROWS_WITH_WINDOW),
    "tail-window-dropped": by_rule("mean_over_full_window", TWO_BY_THREE_OF_TWO, Sign.LONG_WINDOW, RANKS, WINDOW),
}


def test_every_mechanism_that_an_audit_can_name_has_evidence_of_its_own():
    assert set(OWN_EVIDENCE) == {slug for slug, entry in mechanisms().items() if not entry.audit_blind}


@pytest.mark.parametrize("slug", OWN_EVIDENCE)
def test_a_mechanism_is_named_alone_on_its_own_evidence(slug):
    assert OWN_EVIDENCE[slug] == {slug}


@pytest.mark.parametrize(
    ("slugs", "evidence"),
    [
        # R = M: the factor may be that of the ranks or of the window.
        (
            {"replicas-summed", "window-sum-not-mean"},
            by_rule("weighted_mean_times_ranks", TWO_BY_TWO, SUM, RANKS, WINDOW),
        ),
        (
            {"divided-twice", "global-denominator-averaged-again"},
            by_rule("weighted_mean_over_ranks", TWO_BY_TWO, MEAN, RANKS, WINDOW),
        ),
        (
            {"divided-twice", "averaged-over-ranks-twice"},
            by_rule("mean_over_ranks", EQUAL_TWO_BY_TWO, TWICE),
        ),
        # All contributions alike, unequal counts on both axes: both are so.
        (
            {"replica-means-ignore-counts", "mean-of-microbatch-means"},
            by_rule("mean", TWO_BY_THREE, MEAN, RANKS, WINDOW),
        ),
        # One of two ranks is missing: the other one's gradient is all there is.
        (
            {"first-rank-broadcast", "rank-dropped"},
            by_rule("first_rank", TWO, Sign.FIRST_RANK_ONLY, Sign.RANK_MISSING, RANKS),
        ),
        # Equal counts: a global denominator and one more division are the same number.
        (
            {"global-denominator-averaged-again", "averaged-over-ranks-twice"},
            by_rule("mean_over_ranks", EQUAL_TWO, MEAN, Sign.LOSS_OVER_WORLD),
        ),
    ],
)
def test_both_are_named_where_the_evidence_is_the_same(slugs, evidence):
    assert evidence == slugs


@pytest.mark.parametrize(
    ("slug", "evidence"),
    [
        ("replica-means-ignore-counts", by_rule("rank_means_of_window_weighted", TWO_BY_THREE, MEAN, RANKS, WINDOW)),
        ("mean-of-microbatch-means", by_rule("window_means_of_rank_weighted", TWO_BY_THREE, MEAN, RANKS, WINDOW)),
        ("window-sum-not-mean", by_rule("mean_over_ranks_sum_over_window", TWO_BY_THREE, MEAN, RANKS, WINDOW)),
        ("window-sum-not-mean", by_rule("sum", WINDOW_OF_THREE, WINDOW, Sign.SINGLE_RANK)),
        ("divided-twice", by_rule("mean_over_window", WINDOW_OF_THREE, WINDOW, Sign.SINGLE_RANK)),
        ("replicas-summed", by_rule("sum", TWO, SUM, RANKS)),
        ("compensation-without-cause", by_rule("sum", EQUAL_TWO, MEAN, Sign.LOSS_TIMES_WORLD)),
        ("averaged-over-ranks-twice", by_rule("mean_over_ranks", TWO, TWICE, RANKS)),
        ("never-synchronised", found(set(), Sign.OWN_RANK_ONLY, Sign.DDP_PRESENT, Sign.SYNCHRONISATION_OFF)),
        ("reducer-bypassed", found(set(), Sign.OWN_RANK_ONLY, Sign.DDP_PRESENT)),
        (
            "forward-outside-sync-context",
            found(set(), Sign.UNSYNCHRONISED_TAIL, Sign.FORWARD_UNSYNCHRONISED, Sign.DDP_PRESENT),
        ),
        (
            "partials-not-reduced",
            found(set(), Sign.ACTIVATIONS_CROSS, Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS, Sign.NO_DDP),
        ),
        (
            "rank-local-step-decision",
            found(set(), Sign.STEPS_DIFFER, Sign.REPLICAS_DIFFER, Sign.REPLICAS_DIFFER_LATER),
        ),
        ("result-lost", found(set(), Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS, Sign.RESULT_UNUSED)),
        ("divisor-counts-idle-parts", found(set(), Sign.EMPTY_CONTRIBUTION)),
        ("partial-window-full-divisor", by_rule("weighted_mean_over_full_window", TWO_BY_THREE, Sign.SHORT_WINDOW)),
        ("count-applied-twice", by_rule("counts_twice_over_ranks", TWO, MEAN, RANKS)),
        ("count-applied-twice", by_rule("rank_counts_twice", TWO_BY_THREE, SUM, RANKS, WINDOW)),
        ("count-applied-twice", by_rule("counts_twice_over_mean_count", TWO, RANKS)),
        ("unused-on-last-microbatch", found(set(), Sign.UNUSED_IN_LAST_MICRO_BATCH, Sign.SOME_PARAMETERS, Sign.NO_DDP)),
        ("late-division", by_rule("unit_sum", TWO, SUM, RANKS)),
        ("partials-averaged", by_rule("mean", EQUAL_TWO, MEAN, promise="sum")),
    ],
)
def test_other_forms_of_a_mechanism_are_named_alone_too(slug, evidence):
    assert evidence == {slug}


ALL_SHAPE_SIGNS = (MEAN, SUM, RANKS, WINDOW, Sign.SHORT_WINDOW, Sign.DDP_PRESENT, Sign.LOSS_TIMES_WORLD)


@pytest.mark.parametrize(
    "layout", [TWO, EQUAL_TWO, WINDOW_OF_THREE, TWO_BY_THREE, TWO_BY_TWO, EQUAL_TWO_BY_TWO, Layout.from_counts([4])]
)
def test_negative_control_a_right_job_is_accused_of_nothing(layout):
    assert by_rule("weighted_mean", layout, *ALL_SHAPE_SIGNS) == set()
    assert by_rule("unit_sum", layout, *ALL_SHAPE_SIGNS, promise="sum") == set()


@pytest.mark.parametrize("slug", [slug for slug, entry in mechanisms().items() if all(entry.signs)])
def test_negative_control_without_its_signs_a_mechanism_is_not_named(slug):
    assert slug not in found(set(KNOWN))
    assert slug not in found(set(mechanisms()[slug].followed))


@pytest.mark.parametrize("slug", [slug for slug, entry in mechanisms().items() if entry.never])
def test_negative_control_a_sign_that_excludes_a_mechanism_excludes_it(slug):
    entry = mechanisms()[slug]
    promise = "sum" if entry.promised == "sum" else "mean"

    for alternative in entry.signs:
        for excluding in entry.never:
            assert slug not in found(set(entry.followed), *alternative, excluding, promise=promise)


def test_unknown_weights_without_signs_name_nothing():
    assert found(set()) == set()


def test_a_window_of_one_is_seen_in_the_rules_that_fit():
    assert "window-sum-not-mean" not in by_rule("mean_over_ranks_sum_over_window", TWO, MEAN, RANKS)
    assert "replicas-summed" not in by_rule("sum", WINDOW_OF_THREE, SUM, WINDOW)


def test_the_promise_decides_whether_a_mean_is_wrong():
    assert by_rule("mean", EQUAL_TWO, MEAN) == set()
    assert by_rule("mean", EQUAL_TWO, MEAN, promise="sum") == {"partials-averaged"}


def test_measured_weights_with_noise_are_recognised_as_exact_ones():
    noisy = [float(Fraction(1, 2)) * (1 + 1e-4), float(Fraction(1, 2)) * (1 - 1e-4)]
    rules = {one.rule.name for one in match(noisy, [1e-5, 1e-5], TWO)}

    assert found(rules, MEAN, RANKS) == {"replica-means-ignore-counts"}
