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

OPEN = (
    "each rank has the part of one loss's gradient that its own rows bring (all_gather at train.py:7); added up, these "
    "parts weigh 2 times what the script weighs its loss by, averaged 1 time, and here 1.4 in all: which of the two it "
    "is cannot be told; audit on another number of ranks, or compare with one process on the whole batch (--reference) "
    "(3 of 3 steps)"
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


def test_rows_that_are_gathered_under_no_grad_and_are_classes_of_a_loss_leave_it_open(tmp_path):
    verdict = verdict_of(tmp_path, 0.5, gather(cut_off=True), job=HandJob)

    assert verdict.outcome == "cannot tell"
    assert "a loss chooses from 10 classes, as many as all_gather at train.py:7 brings rows" in verdict.reasons[0]


@pytest.mark.parametrize("entry", [gather(), layer()], ids=["detached", "a backward that calls nothing"])
def test_parts_that_are_added_up_are_right_and_no_factor_too_many(entry, tmp_path):
    verdict = verdict_of(tmp_path, 1.0, entry)

    assert (verdict.outcome, verdict.findings) == ("right", [])
    assert SAID in verdict.notes
    assert [cell.share for cell in verdict.cells] == pytest.approx([1.0, 1.0], rel=1e-3)


def test_another_factor_may_be_of_parts_added_up_or_averaged(tmp_path):
    verdict = verdict_of(tmp_path, 0.7, gather())

    assert (verdict.outcome, verdict.reasons) == ("cannot tell", [OPEN])


class _BothWays(_Contrastive):
    """Rows against columns and columns against rows, each with half the weight."""

    def records(self) -> Any:
        found = super().records()
        for records in found:
            for place in of_kind(records, "backward"):
                losses = records[place][0]["losses"]
                losses[0]["scale"] /= 2
                losses.append(dict(losses[0]))
        return found


@pytest.mark.parametrize(
    ("coefficient", "outcome", "mechanisms"),
    [(0.5, "wrong", ["gathered-part-detached"]), (0.7, "cannot tell", []), (1.0, "cannot tell", [])],
    ids=["averaged", "neither", "two means, averaged, look like two halves, added up"],
)
def test_both_terms_of_a_loss_over_all_rows_are_judged_together(coefficient, outcome, mechanisms, tmp_path):
    verdict = verdict_of(tmp_path, coefficient, gather(), job=_BothWays)

    assert (verdict.outcome, names(verdict)) == (outcome, mechanisms)


class _OthersAlone(_Contrastive):
    """Each of ten rows is set against the nine others, all of them by the class 0."""

    def records(self) -> Any:
        found = super().records()
        for records in found:
            for place in of_kind(records, "backward"):
                records[place][0]["losses"][0].update(classes=9, fingerprint=0.0)
        return found


@pytest.mark.parametrize("entry", [gather(rows=10), gather(rows=5), layer()], ids=["all", "each view", "a layer"])
def test_rows_that_are_set_against_all_others_are_rows_of_all_ranks_too(entry, tmp_path):
    assert names(verdict_of(tmp_path, 0.5, entry, job=_OthersAlone)) == ["gathered-part-detached"]


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [gather(rows=12)],
        [gather(ranks=(0,))],
        [gather(when="after")],
        [layer(), layer(when="backward", function="all_reduce")],
        [layer(own=False)],
        [layer(), layer(when="backward", function="all_reduce"), gather()],
        [gather(rows=0, by="_AllGather", own=False), gather(cut_off=True)],
    ],
    ids=[
        "nothing",
        "other rows",
        "alone",
        "for the log",
        "a backward that sums",
        "of torch",
        "for a metric, beside a backward that sums",
        "for a metric, beside that of torch",
    ],
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
