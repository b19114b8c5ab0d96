"""Ranks without an optimizer, whose gradients one rank collects and steps on."""

from __future__ import annotations

from typing import Any

import pytest

from audit.calling import SIZE, call, with_calls
from audit.traces import HandJob, of_kind
from failuremap.audit import diagnose

NOTE = "rank 1: no optimizer steps here: the passes are taken for those of the windows of rank 0, which steps"
UNLIKE = [[300, 200], [100, 250]]


class _OneSteps(HandJob):
    """A job of which rank 0 alone steps."""

    missing = 0
    """Passes that rank 1 lacks."""

    def records(self) -> Any:
        first, second = super().records()
        gone = {*of_kind(second, "step"), *of_kind(second, "backward")[: self.missing]}
        return [first, [record for place, record in enumerate(second) if place not in gone]]


def verdict_of(folder, update, *calls, job=_OneSteps):
    return diagnose(with_calls(job(UNLIKE, update), folder, lambda *_: calls))


def of_all(window):
    return window.combined(window.counts_RM / window.counts_RM.sum())


@pytest.mark.parametrize("function", ["reduce", "gather"])
def test_gradients_that_one_rank_collects_and_steps_on_are_judged_with_all_ranks(function, tmp_path):
    verdict = verdict_of(tmp_path, of_all, call((0, 1), function=function))

    assert (verdict.outcome, verdict.notes) == ("right", [NOTE])


def test_a_mean_of_their_means_is_named(tmp_path):
    verdict = verdict_of(tmp_path, lambda window: window.combined(0.25), call((0, 1), function="reduce"))

    slugs = {candidate.slug for finding in verdict.findings for candidate in finding.candidates}
    assert (verdict.outcome, "replica-means-ignore-counts" in slugs) == ("wrong", True)


class _FewerPasses(_OneSteps):
    missing = 1


@pytest.mark.parametrize(
    ("calls", "job"),
    [
        ([], _OneSteps),
        ([call((0, 1), function="broadcast")], _OneSteps),
        ([call((0, 1), function="reduce", elements=SIZE // 2)], _OneSteps),
        ([call((0,), function="reduce")], _OneSteps),
        ([call((0, 1), function="reduce")], _FewerPasses),
    ],
    ids=["nothing", "weights sent", "less than the gradients", "of its own", "fewer passes"],
)
def test_negative_control_a_rank_whose_gradients_nobody_collects_took_no_part(calls, job, tmp_path):
    verdict = verdict_of(tmp_path, of_all, *calls, job=job)

    assert (verdict.outcome, verdict.reasons[0][:23]) == ("cannot tell", "rank 1 took no part in ")
