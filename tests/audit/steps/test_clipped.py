"""Clips of some parameters alone, taken out of the update of these."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import edited
from audit.signs.test_factors import scaled
from audit.traces import SHAPES, HandJob, of_kind
from failuremap.audit import diagnose

COUNTS = [[300], [100]]
HEAD = list(SHAPES).index("head.weight")


def clipping(folder, *, factor=0.25, norms=(4.0, 4.0), of=(HEAD,), coefficients=((0.75,), (0.25,))):
    """The verdict on a job that clips its head to 1, and multiplies its update by a factor."""

    def update(window):
        rows = window.combined(np.array(coefficients))
        rows[:, window.columns("head.weight")] *= factor
        return rows

    def edit(rank, records):
        clip = {"kind": "clip", "function": "clip_grad_norm_", "norm": norms[rank], "limit": 1.0, "parameters": [*of]}
        for place in reversed(of_kind(records, "step")):
            records.insert(place, (clip, None))
        return records

    return diagnose(edited(HandJob(COUNTS, update), folder, edit))


def test_a_clip_of_one_module_leaves_a_right_job_right(tmp_path):
    verdict = clipping(tmp_path)

    assert (verdict.outcome, verdict.sentence, verdict.notes) == (
        "right", "Every token weighs the same: the update is the mean over all tokens.", [])  # fmt: skip


def test_a_clip_of_one_module_hides_no_rule(tmp_path):
    verdict = clipping(tmp_path, coefficients=((0.5,), (0.5,)))

    assert verdict.sentence == "A token on rank 1 weighs 3.00 times a token on rank 0."


@pytest.mark.parametrize("other", [{"factor": 1.0}, {"norms": (4.0, 2.0)}], ids=["not done", "another on each rank"])
def test_negative_control_what_is_no_clip_of_the_reduced_gradient_stays(other, tmp_path):
    assert (clipping(tmp_path, **other).outcome, clipping(tmp_path, **other).notes) != ("right", [])


@pytest.mark.parametrize(("of", "outcome"), [((HEAD,), "cannot tell"), ((), "right")], ids=["clipped", "not"])
def test_one_norm_that_clips_make_is_not_one_that_the_script_gives(of, outcome, tmp_path):
    def edit(_, records):
        clip = {"kind": "clip", "function": "clip_grad_norm_", "norm": 1.0, "limit": 1.0, "parameters": [*of]}
        for place in reversed(of_kind(records, "step")):
            records[place][0]["norm"] = 1.0
            records[place:place] = [(clip, None)] if of else []
        return records

    assert diagnose(edited(scaled([0.3, 0.7, 0.8, 0.9, 1.4]), tmp_path, edit)).outcome == outcome
