"""Copies of one weight on the stages of a pipeline: told by their first values, and added up where they step alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.pipeline_traces import PipelineJob, W, last_step, mean_of_all, ranks_in
from failuremap.audit.sentences import pipeline_words
from failuremap.audit.steps.tied import tied_at_start
from failuremap.audit.verdict import diagnose

NAMES = ("w (stage 0)", "w (stage 1)")


def alike(weights_SL, *_):
    """Both stages begin with the same matrix."""
    weights_SL[1, W] = weights_SL[0, W]
    return weights_SL


def summed(gradients_DMSL, counts_DM):
    """Both copies step on the sum of their gradients."""
    found = mean_of_all(gradients_DMSL, counts_DM)
    found[:, :, W] = found[:, :, W].sum(axis=1, keepdims=True)
    return found


def held_as(*what: str, of: str = "w"):
    """What the traces say of how modules hold a parameter."""

    def shown(_: int, fields: dict[str, Any]) -> None:
        if fields["kind"] == "parameter" and fields["name"] == of:
            fields["held_as"] = list(what)

    return shown


def copying(elements: int, **more: Any):
    """A broadcast between the stages before the first backward."""

    def shown(_: int, fields: dict[str, Any]) -> None:
        if fields["kind"] == "collectives":
            call = {"function": "broadcast", "group": 0, "when": "before", "own": True, "site": "train.py:5"}
            fields["calls"] = [{**call, "calls": 1, "elements": elements, **more}]

    return shown


def slugs(verdict):
    return [candidate.slug for finding in verdict.findings for candidate in finding.candidates]


def test_copies_that_step_on_their_sum_are_right(tmp_path):
    verdict = diagnose(PipelineJob(update=summed, weights=alike).write(tmp_path))

    assert verdict.outcome == "right"
    assert f"{pipeline_words.copies_added_up(NAMES)} (3 of 3 steps)" in verdict.notes


def test_copies_that_step_alike_are_one_parameter(tmp_path):
    step = last_step(PipelineJob(update=summed, weights=alike).write(tmp_path))

    assert [found.names for found in step.pipelines.alike] == [NAMES]
    assert step.present_RP.tolist() == [[True, True, False, True]]
    np.testing.assert_allclose(step.contributions_KL.mean(axis=0), step.updates_RL[0], atol=1e-6)


def test_negative_control_weights_that_begin_unlike_are_not_added_up(tmp_path):
    verdict = diagnose(PipelineJob(update=summed).write(tmp_path))

    assert verdict.outcome != "right"


def test_copies_that_are_averaged_weigh_less_than_the_rest(tmp_path):
    def averaged(gradients_DMSL, counts_DM):
        found = summed(gradients_DMSL, counts_DM)
        found[:, :, W] /= 2
        return found

    verdict = diagnose(PipelineJob(update=averaged, weights=alike).write(tmp_path))

    assert verdict.outcome == "wrong"
    assert verdict.sentence == "1 parameter gets 0.5 times the update of the rest: w (stage 0)."


@pytest.mark.parametrize("shown", [held_as("several"), copying(128)], ids=["several modules", "copied"])
def test_copies_that_step_apart_are_named(tmp_path, shown):
    verdict = diagnose(PipelineJob(weights=alike, shown=shown, steps=4, told_calls=True).write(tmp_path))

    assert verdict.outcome == "wrong"
    assert verdict.sentence == (
        "Stages of one pipeline hold copies of one weight, and each steps on its own gradient, not on their sum: "
        "w (stage 0), w (stage 1)."
    )
    assert slugs(verdict) == ["tied-copies-not-summed"]


def test_weights_that_begin_alike_where_one_embeds_may_be_copies(tmp_path):
    verdict = diagnose(PipelineJob(weights=alike, shown=held_as("embedding")).write(tmp_path))

    assert verdict.outcome == "cannot tell"
    assert verdict.reasons[0] == (
        f"{', '.join(NAMES)} begin with the same weights and step apart: if they are meant to be one weight, the "
        "gradients of its copies are not added up (tied-copies-not-summed); if not, let them begin unlike (3 of 3 "
        "steps)"
    )


def one_seed(weights_SL, *_):
    """Everything begins alike."""
    weights_SL[1] = weights_SL[0]
    return weights_SL


def test_stages_of_one_seed_are_no_copies(tmp_path):
    verdict = diagnose(PipelineJob(weights=one_seed).write(tmp_path))

    assert verdict.outcome == "right"
    assert any(note.startswith("w (stage 0), w (stage 1), b (stage 0) and 1 more begin with") for note in verdict.notes)


def test_what_a_seed_explains_is_not_named(tmp_path):
    verdict = diagnose(PipelineJob(weights=one_seed, shown=held_as("several")).write(tmp_path))

    assert verdict.outcome == "cannot tell"


@pytest.mark.parametrize(
    "shown", [copying(127), copying(128, when="after"), copying(128, own=False)], ids=["other size", "late", "torch's"]
)
def test_other_calls_copy_no_weight(tmp_path, shown):
    found = tied_at_start(ranks_in(PipelineJob(weights=alike, shown=shown, told_calls=True).write(tmp_path)))

    assert [(tied.names, tied.certain, tied.suspected) for tied in found] == [(NAMES, False, False)]


def test_weights_that_are_all_one_number_are_no_copies(tmp_path):
    def constant(weights_SL, *_):
        return np.ones_like(weights_SL)

    assert tied_at_start(ranks_in(PipelineJob(weights=constant).write(tmp_path))) == []


def test_copies_that_no_gradient_explains_are_not_named(tmp_path):
    def noisy(gradients_DMSL, counts_DM):
        found = mean_of_all(gradients_DMSL, counts_DM)
        found[:, :, W] += np.random.default_rng(3).normal(size=found[:, :, W].shape)
        return found

    verdict = diagnose(PipelineJob(update=noisy, weights=alike, shown=held_as("several")).write(tmp_path))

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
