"""A loss over the rows of all ranks: whether the ranks' parts of its gradient are added up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.calling import call, with_calls
from audit.traces import HandJob, of_kind
from failuremap.audit import diagnose
from failuremap.audit.model import Verdict

SAID = (
    "each rank computes the loss over all rows that all_gather at train.py:7 brings, and has the part of its gradient "
    "that its own rows bring; these parts are added up (3 of 3 steps)"
)


class _Contrastive(HandJob):
    """A job whose ranks have the same targets, one for each of ten rows."""

    def records(self) -> Any:
        found = super().records()
        for records in found:
            for place in of_kind(records, "backward"):
                for seen in records[place][0]["losses"]:
                    seen["fingerprint"] = 7.0
        return found


def gather(**more: Any) -> dict[str, Any]:
    """A gather of ten rows that autograd does not see."""
    said = {"ranks": (0, 1), "function": "all_gather", "when": "before", "other_elements": 0, "rows": 10}
    return call(**{**said, **more})


def layer(**more: Any) -> dict[str, Any]:
    """The same in the forward of an autograd function of the script's own."""
    return gather(rows=0, by="GatherLayer", **more)


def names(verdict: Verdict) -> list[str]:
    """The mechanisms of all findings."""
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})


def verdict_of(folder: Any, coefficient: float, *calls: dict[str, Any], job: type[HandJob] = _Contrastive) -> Verdict:
    ten = [[10], [10]]
    return diagnose(with_calls(job(ten, lambda window: window.combined(coefficient)), folder, lambda *_: calls))


@pytest.mark.parametrize("entry", [gather(), layer()], ids=["detached", "a backward that calls nothing"])
def test_parts_that_are_averaged_are_named(entry, tmp_path):
    verdict = verdict_of(tmp_path, 0.5, entry)

    assert (verdict.outcome, names(verdict)) == ("wrong", ["gathered-part-detached"])
    assert verdict.sentence == (
        "Each rank has the part of one loss's gradient that its own rows bring, and these parts are averaged: the "
        "update is 1/2 of their sum (all_gather at train.py:7 brings all rows, and no gradient back)."
    )
    assert [cell.share for cell in verdict.cells] == pytest.approx([0.5, 0.5], rel=1e-3)


@pytest.mark.parametrize("entry", [gather(), layer()], ids=["detached", "a backward that calls nothing"])
def test_parts_that_are_added_up_are_right_and_no_factor_too_many(entry, tmp_path):
    verdict = verdict_of(tmp_path, 1.0, entry)

    assert (verdict.outcome, verdict.findings) == ("right", [])
    assert SAID in verdict.notes
    assert [cell.share for cell in verdict.cells] == pytest.approx([1.0, 1.0], rel=1e-3)


def test_another_factor_stays_what_it_was(tmp_path):
    assert verdict_of(tmp_path, 0.7, gather()).outcome == "right"
    assert SAID not in verdict_of(tmp_path, 0.7, gather()).notes


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [gather(rows=12)],
        [gather(ranks=(0,))],
        [gather(when="after")],
        [layer(), layer(when="backward", function="all_reduce")],
        [layer(own=False)],
    ],
    ids=["nothing", "other rows", "alone", "for the log", "a backward that sums", "of torch"],
)
def test_negative_control_other_calls_leave_the_mean_right(calls, tmp_path):
    assert verdict_of(tmp_path, 0.5, *calls).outcome == "right"
    assert names(verdict_of(tmp_path, 1.0, *calls)) == ["replicas-summed"]


def test_negative_control_ranks_on_targets_of_their_own_have_a_loss_each(tmp_path):
    assert verdict_of(tmp_path, 0.5, gather(), job=HandJob).outcome == "right"


def test_negative_control_ranks_with_one_gradient_hold_no_parts_of_it(tmp_path):
    job = _Contrastive(
        [[10], [10]],
        lambda window: window.combined(0.5),
        gradients=lambda drawn, _: np.repeat(drawn[:1], 2, axis=0),
    )
    assert names(diagnose(with_calls(job, tmp_path, lambda *_: [gather()]))) == ["same-data-on-all-ranks"]
