"""Mechanisms that are named by more than their rule: each in a hand-written job, beside one that is much like it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.judging import combined, edited, share_of_all
from audit.traces import HandJob, of_kind
from failuremap.audit import diagnose
from failuremap.audit.model import Verdict


def names(verdict: Verdict) -> list[str]:
    """The mechanisms of all findings."""
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})


# ---- what an epoch leaves over joins the next one's first window


def windows_of(*sizes: int) -> Any:
    return [np.full((2, size), 300) for size in sizes]


def test_a_window_with_the_rest_of_the_epoch_before_is_a_tail_that_was_dropped(tmp_path):
    verdict = diagnose(HandJob(windows_of(3, 3, 4, 3), combined(1 / 6), steps=4).write(tmp_path))

    assert (verdict.outcome, verdict.sentence) == ("wrong", "The update is 1.33 times the mean over all tokens.")
    assert (names(verdict), verdict.findings[0].steps) == (["tail-window-dropped"], [3])
    assert verdict.findings[0].followed == "mean over the ranks, the window divided by the length of a full one"


@pytest.mark.parametrize("sizes", [(3, 3, 3, 4, 4), (4, 3, 3, 3), (3, 3, 3, 6), (2, 3, 3, 4)], ids=str)
def test_negative_control_longer_windows_that_no_rest_explains_are_wrong_without_this_name(sizes, tmp_path):
    verdict = diagnose(HandJob(windows_of(*sizes), combined(1 / 6), steps=len(sizes)).write(tmp_path))

    assert (verdict.outcome, "tail-window-dropped" in names(verdict)) == ("wrong", sizes == (2, 3, 3, 4))


def test_negative_control_a_longer_window_with_a_divisor_of_its_own_is_right(tmp_path):
    job = HandJob(windows_of(3, 3, 4, 3), lambda window: window.combined(1 / window.counts_RM.size), steps=4)

    assert diagnose(job.write(tmp_path)).outcome == "right"


# ---- the count stands in the loss and in the reduction


def weighed(window: Any) -> Any:
    return window.combined(window.counts_RM / window.counts_RM.sum())


@pytest.mark.parametrize("divisor", [1, 2], ids=["summed", "averaged over the ranks"])
def test_a_sum_that_is_weighed_by_its_count_has_the_count_twice(divisor, tmp_path):
    job = HandJob([[400], [100]], lambda window: weighed(window) / divisor, lambda counts: counts)

    verdict = diagnose(job.write(tmp_path))

    assert (verdict.outcome, names(verdict)) == ("wrong", ["count-applied-twice"])
    assert verdict.sentence == "A token on rank 0 weighs 4.00 times a token on rank 1."
    assert verdict.findings[0].followed.startswith("sum over all tokens, each contribution times its share of them")


@pytest.mark.parametrize(("counts", "scale", "outcome"), [
    ([[400], [100]], np.ones_like, "right"),
    ([[250], [250]], lambda counts: counts, "wrong"),
], ids=["a mean that is weighed by its count", "a sum that is weighed by equal counts"])  # fmt: skip
def test_negative_control_counts_that_are_applied_once_or_are_equal_are_no_count_twice(
    counts, scale, outcome, tmp_path
):
    verdict = diagnose(HandJob(counts, weighed, scale).write(tmp_path))

    assert (verdict.outcome, "count-applied-twice" in names(verdict)) == (outcome, False)


# ---- means over tokens that weigh by their sequences


def with_sequences(table: Any) -> Any:
    """Says how many sequences stand behind each contribution."""

    def edit(rank: int, records: Any) -> Any:
        for number, place in enumerate(of_kind(records, "backward")):
            records[place][0]["losses"][0]["rows"] = table[rank][number % len(table[rank])]
        return records

    return edit


TOKENS, SEQUENCES = [[240, 300], [200, 260]], [[6, 2], [3, 5]]


def by_sequences(factor: float = 1.0) -> Any:
    return HandJob(TOKENS, combined(np.array(SEQUENCES) * factor / 16))


@pytest.mark.parametrize("factor", [1.0, 0.3], ids=["mean", "clipped"])
def test_token_means_that_weigh_by_sequences_are_named(factor, tmp_path):
    verdict = diagnose(edited(by_sequences(factor), tmp_path, with_sequences(SEQUENCES)))

    assert (verdict.outcome, names(verdict)) == ("wrong", ["weight-kind-mismatch"])


@pytest.mark.parametrize("table", [[[6, 2], [3, 4]], [[0, 2], [3, 5]]], ids=["other numbers of them", "one of none"])
def test_negative_control_weights_that_are_not_those_of_the_sequences_have_no_name(table, tmp_path):
    assert names(diagnose(edited(by_sequences(), tmp_path, with_sequences(table)))) == []


def test_negative_control_without_rows_nothing_is_known_of_sequences(tmp_path):
    assert names(diagnose(by_sequences().write(tmp_path))) == []


def test_negative_control_equal_numbers_of_sequences_are_means_of_means(tmp_path):
    verdict = diagnose(edited(HandJob(TOKENS), tmp_path, with_sequences([[4, 4], [4, 4]])))

    assert names(verdict) == ["mean-of-microbatch-means", "replica-means-ignore-counts"]


def test_negative_control_tokens_that_weigh_the_same_are_right(tmp_path):
    job = HandJob(TOKENS, combined(1), share_of_all)

    assert diagnose(edited(job, tmp_path, with_sequences(SEQUENCES))).outcome == "right"


def test_negative_control_sequences_that_weigh_the_same_are_right_where_they_were_asked_for(tmp_path):
    folder = edited(by_sequences(), tmp_path, with_sequences(SEQUENCES))

    assert diagnose(folder, unit="sequence").outcome == "right"


# ---- a gradient over no unit that is not finite


def empty_at(step: int) -> Any:
    return [np.array([[300], [200]] if number != step else [[300], [0]]) for number in range(3)]


def not_finite_at(step: int) -> Any:
    def change(gradients: Any, number: int) -> Any:
        gradients[1] = np.nan if number == step else gradients[1]
        return gradients

    return change


def poisoned(weigh: Any) -> Any:
    """The update by these coefficients; not finite where a gradient is not."""

    def update(window: Any) -> Any:
        return np.nan_to_num(weigh(window), nan=np.nan) * (1 if np.isfinite(window.gradients_RML).all() else np.nan)

    return update


def test_a_weight_of_zero_on_a_gradient_that_is_not_finite_is_named(tmp_path):
    job = HandJob(empty_at(2), poisoned(weighed), gradients=not_finite_at(2))

    verdict = diagnose(job.write(tmp_path))

    assert (verdict.outcome, names(verdict), verdict.findings[0].steps) == ("wrong", ["zero-count-times-nan"], [3])


def test_negative_control_in_a_plain_mean_the_total_of_the_rank_was_zero(tmp_path):
    job = HandJob(empty_at(2), poisoned(lambda window: window.combined(0.5)), gradients=not_finite_at(2))

    assert "zero-total" in names(diagnose(job.write(tmp_path)))
    assert "zero-count-times-nan" not in names(diagnose(tmp_path))


def test_negative_control_where_no_rank_has_a_unit_the_total_was_zero(tmp_path):
    counts = [np.array([[300], [200]])] * 2 + [np.zeros((2, 1))]

    def nothing_left(window: Any) -> Any:
        return window.combined(window.counts_RM / max(window.counts_RM.sum(), 1))

    verdict = diagnose(HandJob(counts, poisoned(nothing_left), gradients=not_finite_at(2)).write(tmp_path))

    assert names(verdict) == ["zero-total"]


def test_negative_control_a_gradient_over_nothing_that_was_left_out_is_right(tmp_path):
    job = HandJob(empty_at(2), lambda window: np.nan_to_num(weighed(window)), gradients=not_finite_at(2))

    verdict = diagnose(job.write(tmp_path))

    assert verdict.outcome == "right"
    assert (
        "set aside: a gradient over no unit that was not finite, and that no update holds (1 of 3 steps)"
        in verdict.notes
    )
