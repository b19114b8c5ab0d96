"""The faults of all steps together: one finding a kind, the right one first, and the mechanisms that fit every step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from audit.small_traces import numbers, opened, passed, ranks_of, stepped
from audit.traces import HandJob, end
from failuremap.audit import diagnose
from failuremap.audit.faults import Fault, Judged, Story
from failuremap.audit.findings import findings, made_equal
from failuremap.audit.model import Cell
from failuremap.audit.sentences import words
from failuremap.catalogue.recognise import recognise
from failuremap.catalogue.signs import Sign

NAMES = frozenset({"a", "b", "c"})
ACROSS_RANKS = {Sign.UNEQUAL_COUNTS_ACROSS_RANKS, Sign.SINGLE_MICRO_BATCH}


def step(number: int, *faults: Fault, names=NAMES, **more) -> Judged:
    equal = not more.get("differing")
    return Judged(number, faults=list(faults), names=frozenset(names), weights_equal=equal, **more)


def story(*judged: Judged, ranks=(), promise="mean") -> Story:
    return Story([], list(ranks), 2, list(judged), "token", promise)


def weights(ratio: float = 4.0, **more) -> Fault:
    told = {"followed": ["mean"], "ratio": ratio, "total": 1.0, "term": "cross_entropy(mean) at train.py:41"}
    return Fault("weights", set(ACROSS_RANKS), f"{ratio} times.", **{**told, **more})


def slugs(finding):
    return [candidate.slug for candidate in finding.candidates]


# ---- one finding a kind


def test_a_step_at_which_nothing_else_moved_does_not_call_all_parameters_local():
    alone = Fault("own-rank-only", {Sign.OWN_RANK_ONLY}, "never.", parameters=["b"])
    local = Fault("local parameters", {Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS}, "b is not.", parameters=["b"])

    assert [found.sentence for found in findings(story(step(1, alone), step(2, local)))] == ["b is not."]
    assert [found.sentence for found in findings(story(step(1, alone), step(2)))] == ["never."]


def test_no_fault_is_no_finding():
    assert findings(story(step(1), step(2))) == []


def test_a_kind_at_several_steps_is_one_finding_with_its_steps():
    (only,) = findings(story(step(1, weights()), step(2), step(3, weights())))

    assert only.steps == [1, 3]


def test_the_finding_tells_of_its_worst_step():
    cell = Cell(rank=0, micro_batch=0, share=9.0)

    (only,) = findings(story(step(1, weights(2)), step(2, weights(9, cells=[cell], effect=0.5)), step(3, weights(3))))

    assert (only.sentence, only.ratio, only.cells_step, only.cells, only.effect) == ("9 times.", 9, 2, [cell], 0.5)


def test_opposite_signs_are_the_worst_and_no_crash():
    (only,) = findings(story(step(1, weights(2)), step(2, weights(float("inf")))))

    assert (only.cells_step, only.ratio) == (2, float("inf"))


def test_terms_are_findings_of_their_own():
    first, second = findings(story(step(1, weights(term="a"), weights(term="b"))))

    assert {first.term, second.term} == {"a", "b"}


def test_what_is_followed_and_promised_is_said_in_words():
    (only,) = findings(story(step(1, weights())))

    assert only.promised == "mean over all tokens"
    assert only.followed == "mean of all contributions' means"


def test_a_rule_without_a_name_has_no_candidate_and_no_repair():
    (only,) = findings(story(step(1, weights(followed=[]))))

    assert (slugs(only), only.followed, only.repair) == ([], "no rule that has a name here", "")


def test_a_finding_has_the_repair_of_its_first_candidate():
    (only,) = findings(story(step(1, weights())))

    (mechanism,) = recognise(["mean"], ACROSS_RANKS)
    assert (slugs(only), only.repair) == ([mechanism.slug], mechanism.repair)


# ---- which finding is first


@pytest.mark.parametrize("order", [1, -1])
def test_what_is_wrong_with_the_way_comes_before_what_is_wrong_with_the_weights(order):
    kinds = [
        "nonfinite",
        "missing rank-missing",
        "previous-update-added",
        "same",
        "clip",
        "local parameters",
        "weights",
    ]
    faults = [Fault(kind, set(), kind) for kind in kinds]

    found = findings(story(step(1, *faults[::order])))

    assert [finding.sentence for finding in found] == kinds


def test_a_kind_without_a_place_comes_last():
    found = findings(story(step(1, Fault("other parameters", set(), "other"), weights())))

    assert [finding.sentence for finding in found] == ["4.0 times.", "other"]


# ---- the mechanisms that fit


def test_the_mechanisms_that_fit_at_most_steps_are_the_candidates():
    odd = weights(followed=["sum"])
    odd.signs = {Sign.COEFFICIENTS_SUM, Sign.SINGLE_MICRO_BATCH}

    (only,) = findings(story(step(1, weights()), step(2, odd), step(3, weights())))

    assert slugs(only) == [mechanism.slug for mechanism in recognise(["mean"], ACROSS_RANKS)]


def test_a_ratio_that_never_changes_is_not_clipping():
    clipped = {Sign.CLIPPED_BEFORE_REDUCTION}
    steady = [weights(4.0, followed=[]) for _ in range(4)]
    changing = [weights(ratio, followed=[]) for ratio in (4.0, 2.0, 3.0, 7.0)]
    for fault in (*steady, *changing):
        fault.signs |= clipped

    (still,) = findings(story(*(step(n, fault) for n, fault in enumerate(steady, 1))))
    (moving,) = findings(story(*(step(n, fault) for n, fault in enumerate(changing, 1))))

    assert (slugs(still), slugs(moving)) == ([], ["clip-in-wrong-place"])


def test_two_steps_are_too_few_to_call_a_ratio_steady():
    faults = [weights(4.0, followed=[]) for _ in range(2)]
    for fault in faults:
        fault.signs.add(Sign.CLIPPED_BEFORE_REDUCTION)

    (only,) = findings(story(*(step(n, fault) for n, fault in enumerate(faults, 1))))

    assert slugs(only) == ["clip-in-wrong-place"]


@pytest.mark.parametrize(("largest", "named"), [(1.0, ["clip-in-wrong-place"]), (1.02, [])])
def test_a_coefficient_above_that_of_a_sum_is_made_by_no_clip(largest, named):
    faults = [weights(ratio, followed=[]) for ratio in (4.0, 2.0, 3.0, 7.0)]
    for fault in faults:
        fault.signs.add(Sign.CLIPPED_BEFORE_REDUCTION)
    faults[0].cells = [Cell(rank=0, micro_batch=0, coefficient=largest)]

    (only,) = findings(story(*(step(n, fault) for n, fault in enumerate(faults, 1))))

    assert slugs(only) == named


# ---- parameters


def test_a_fault_of_all_parameters_names_none():
    (only,) = findings(story(step(1, weights())))

    assert (only.parameters, only.parameter_count) == ([], 3)


def test_a_fault_of_some_parameters_names_them():
    (only,) = findings(story(step(1, Fault("local parameters", set(), "", parameters=["b", "a"]))))

    assert (only.parameters, only.parameter_count) == (["a", "b"], 2)


def test_at_most_20_parameters_are_named_and_all_are_counted():
    names = [f"layer{n:02}" for n in range(30)]
    fault = Fault("local parameters", set(), "", parameters=names)

    (only,) = findings(story(step(1, fault, names=[*names, "head"])))

    assert (only.parameters, only.parameter_count) == (names[:20], 30)


# ---- replicas


def test_replicas_that_differ_and_are_equal_again_were_made_equal():
    assert made_equal(story(step(1), step(2, differing=["a"]), step(3)))


@pytest.mark.parametrize("differing", [[[], [], []], [[], ["a"], ["a"]], [["a"], ["a"], ["a"]]], ids=str)
def test_replicas_that_stay_equal_or_stay_apart_were_not_made_equal(differing):
    assert not made_equal(story(*(step(n, differing=names) for n, names in enumerate(differing, 1))))


def test_other_parameters_that_are_equal_make_nothing_equal():
    assert not made_equal(story(step(1, names={"a"}, differing=["a"]), step(2, names={"b"})))


def test_ranks_that_step_on_their_own_and_are_made_equal_are_no_fault():
    own = Fault("own-rank-only", {Sign.OWN_RANK_ONLY}, "own")
    local_sgd = [step(1, own), step(2, own, differing=["a"]), step(3, own)]

    assert findings(story(*local_sgd)) == []
    assert len(findings(story(*local_sgd[:2]))) == 1


def test_replicas_that_differ_from_the_start_are_a_finding_of_their_own():
    (first, second) = findings(story(step(1, weights(), differing=["a"]), step(2, weights(), differing=["a"])))

    assert (first.steps, first.parameters, slugs(first)) == ([1, 2], ["a"], ["replicas-start-different"])
    assert second.sentence == "4.0 times."


def test_replicas_that_come_apart_later_are_explained_by_another_fault():
    assert len(findings(story(step(1, weights()), step(2, weights(), differing=["a"])))) == 1


def test_replicas_that_come_apart_without_a_reason_are_a_finding():
    (only,) = findings(story(step(1), step(2, differing=["a", "b"]), step(3, differing=["a", "b"])))

    assert (only.steps, only.parameter_count) == ([2, 3], 2)
    assert only.sentence == "The ranks no longer hold the same weights from step 2 on: 2 of 3 parameters differ (a, b)."


def test_sharded_parameters_that_differ_are_none():
    assert findings(story(step(1, differing=["a"], unmeasured=["parameters of type DTensor"]))) == []


def two_ends(folder, change: float):
    """Two ranks whose final weights differ by this much in one number of b."""
    last = np.arange(1, 8, dtype=np.float32)
    other = last.copy()
    other[5] += change
    ends = [(end([0, 1], 1), numbers(*values)) for values in (last, other)]
    return ranks_of(folder, *([*opened(rank, 2), passed(0), stepped(), ends[rank]] for rank in range(2)))


def test_replicas_that_differ_at_the_end_alone_are_a_finding(tmp_path):
    (only,) = findings(story(step(1), ranks=two_ends(tmp_path, 0.5)))

    assert (only.parameters, only.steps) == (["b"], [])
    assert only.sentence == "The ranks no longer hold the same weights at the end: 1 of 3 parameters differ (b)."


@pytest.mark.parametrize("change", [0.0, 1e-6])
def test_replicas_that_are_equal_at_the_end_up_to_rounding_are_none(change, tmp_path):
    assert findings(story(step(1), ranks=two_ends(tmp_path, change))) == []


def test_one_gradient_for_other_targets_is_a_fault_at_most_steps_and_none_at_one():
    def dead(number):
        return step(number, Fault("same gradient", {Sign.SAME_CONTRIBUTIONS}, "the same."))

    assert [found.sentence for found in findings(story(*map(dead, range(1, 6))))] == ["the same."]
    assert findings(story(*map(step, range(1, 5)), dead(5))) == []


# ---- a factor that changes, and meets one that a known fault leaves


def factor(number: int, value: float, **more) -> Judged:
    return step(number, factor=value, main_term="loss", micro_batch_count=1, **more)


def doubled(number: int, total: float = 2.0, **more) -> Judged:
    fault = Fault("total", {Sign.COEFFICIENTS_SUM}, "twice.", ["mean"], total=total, term="loss")
    return step(number, fault, main_term="loss", micro_batch_count=1, **more)


def test_a_schedule_that_passes_through_a_known_factor_is_no_fault():
    schedule = [factor(1, 1.7), factor(2, 1.8), factor(3, 1.9), doubled(4), factor(5, 2.1)]

    assert findings(story(*schedule)) == []


def test_a_denominator_that_counts_something_else_meets_known_factors_by_chance():
    smaller = [factor(1, 0.47, norm=1.0), doubled(2, 0.5, norm=0.8), factor(3, 0.66, norm=1.2)]
    assert findings(story(*smaller)) == findings(story(factor(1, 1.4), doubled(2), doubled(3), factor(4, 3.2))) == []

    local = Fault("weights", set(), "uneven.", [], ratio=8.0, term="loss")
    uneven = [step(n, replace(local, total=total), micro_batch_count=1) for n, total in enumerate((4.5, 1.5), 1)]
    assert [found.sentence for found in findings(story(*uneven, doubled(3)))] == ["uneven."]


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([factor(1, 1.7), doubled(2), doubled(3), factor(4, 2.1)], id="too-few-others"),
        pytest.param([factor(n, 1 + n / 10) for n in range(1, 7)], id="below-it-only"),
        pytest.param([factor(n, 3.0) for n in range(1, 7)], id="one-factor"),
        pytest.param([step(n, main_term="loss", micro_batch_count=1) for n in range(1, 7)], id="no-factor"),
        pytest.param([replace(factor(n, n / 2), micro_batch_count=4) for n in range(1, 9)], id="other-windows"),
    ],
)
def test_a_known_factor_that_no_schedule_explains_is_one(others):
    (only,) = findings(story(*others, doubled(9)))

    assert only.sentence == "twice."


def test_a_clip_by_hand_that_halves_a_gradient_has_the_norm_of_the_others():
    clipped = [factor(1, 0.7, norm=0.2), factor(2, 0.6, norm=0.2)]

    assert findings(story(*clipped, doubled(3, 0.5, norm=0.2))) == []
    assert len(findings(story(*clipped, doubled(3, 0.5, norm=0.14)))) == 1


@pytest.mark.parametrize("zero_steps", [{3}, {0, 1, 2, 3, 4, 5}], ids=["one of six", "all"])
def test_gradients_that_are_zeroed_before_every_step_are_a_fault_and_before_one_a_step_left_out(zero_steps, tmp_path):
    def update(window):
        return window.combined(0.0 if window.number in zero_steps else 1 / window.counts_RM.size)

    verdict = diagnose(HandJob([[300], [300]], update, steps=6).write(tmp_path))

    always = len(zero_steps) > 1
    assert verdict.outcome == ("wrong" if always else "right")
    assert [finding.sentence for finding in verdict.findings] == [words.NOTHING_ARRIVES] * always
    assert [finding.candidates for finding in verdict.findings] == [[]] * always
    assert f"{words.ZEROED} ({len(zero_steps)} of 6 steps)" in verdict.notes


def test_a_parameter_of_no_element_says_nothing(tmp_path):
    job = HandJob([[300], [300]], shapes={"weight": (8, 16), "bias": (8,), "none": (0,)})

    assert diagnose(job.write(tmp_path)).outcome == "right"
