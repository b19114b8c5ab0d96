"""Mechanisms that are named by more than their rule: each in a hand-written job, beside one that is much like it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.judging import combined
from audit.traces import HandJob
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
