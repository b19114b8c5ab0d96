"""Ranks that run the stages of one pipeline are one rank here, with one contribution for each micro-batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.pipeline_traces import B, PipelineJob, last_step, mean_of_all
from failuremap.audit.sentences import pipeline_words
from failuremap.audit.verdict import diagnose

TWO = ((300, 300), (300, 300))


def slugs(verdict):
    return [candidate.slug for finding in verdict.findings for candidate in finding.candidates]


def test_the_passes_of_a_micro_batch_are_one_contribution_of_the_first_rank(tmp_path):
    step = last_step(PipelineJob().write(tmp_path))

    assert (step.ranks, step.keys) == ([0], [(0, 0), (0, 1), (0, 2)])
    assert [len(backward.losses) for backward in step.backwards] == [1, 1, 1]
    assert [p.name for p in step.parameters] == ["w (stage 0)", "b (stage 0)", "w (stage 1)", "b (stage 1)"]
    np.testing.assert_allclose(step.contributions_KL.mean(axis=0), step.updates_RL[0], atol=1e-6)
    assert step.present_RP.all()


def test_each_replica_of_a_pipeline_is_a_rank(tmp_path):
    step = last_step(PipelineJob(TWO).write(tmp_path))

    assert (step.ranks, step.keys) == ([0, 2], [(0, 0), (0, 1), (2, 0), (2, 1)])
    assert step.pipelines.groups == [[0, 1], [2, 3]]


def test_the_order_in_which_a_stage_goes_backward_changes_nothing(tmp_path):
    (tmp_path / "alike").mkdir()
    (tmp_path / "reversed").mkdir()
    alike = last_step(PipelineJob().write(tmp_path / "alike"))

    other = last_step(PipelineJob(orders={0: [2, 1, 0]}).write(tmp_path / "reversed"))

    np.testing.assert_array_equal(other.contributions_KL, alike.contributions_KL)
    assert [b.fingerprints for b in other.backwards] == [b.fingerprints for b in alike.backwards]


def test_equal_micro_batches_are_right(tmp_path):
    verdict = diagnose(PipelineJob(TWO).write(tmp_path))

    assert verdict.outcome == "right"
    assert verdict.notes[0] == (
        "ranks that run the stages of one pipeline are told as its first rank: ranks 0 and 1 as rank 0; ranks 2 and 3 "
        "as rank 2 (3 of 3 steps)"
    )


def test_means_over_micro_batches_of_other_sizes_are_wrong(tmp_path):
    verdict = diagnose(PipelineJob(((400, 300, 100),)).write(tmp_path))

    assert verdict.sentence == "A token in micro-batch 2 weighs 4.00 times a token in micro-batch 0."
    assert slugs(verdict) == ["mean-of-microbatch-means"]


def by_counts(gradients_DMSL, counts_DM):
    weighed_SL = np.einsum("dm,dmsl->sl", counts_DM / counts_DM.sum(), gradients_DMSL)
    return np.repeat(weighed_SL[None], len(counts_DM), axis=0)


def test_weights_by_counts_are_right(tmp_path):
    assert diagnose(PipelineJob(((400, 300, 100),), by_counts).write(tmp_path)).outcome == "right"


def test_a_stage_whose_replicas_are_not_reduced_is_found(tmp_path):
    def update(gradients_DMSL, counts_DM):
        found = mean_of_all(gradients_DMSL, counts_DM)
        found[:, 0] = gradients_DMSL.mean(axis=1)[:, 0]
        return found

    verdict = diagnose(PipelineJob(TWO, update).write(tmp_path))

    assert verdict.sentence == ("2 of 4 parameters are never added up over the ranks: w (stage 0), b (stage 0).")
    assert len(verdict.findings) == 1


@pytest.mark.parametrize("stage", [0, 1])
def test_replicas_of_any_stage_that_start_apart_are_found(tmp_path, stage):
    def apart(weights_SL, replica, _):
        weights_SL[stage, B] += replica
        return weights_SL

    verdict = diagnose(PipelineJob(TWO, weights=apart).write(tmp_path))

    assert "replicas-start-different" in slugs(verdict)
    assert verdict.findings[0].parameters == [f"b (stage {stage})"]


def test_a_stage_with_passes_of_other_micro_batches_is_not_measured(tmp_path):
    def other(stage: int, fields: dict[str, Any]) -> None:
        if stage == 0 and "stage" in fields and fields["kind"] == "backward":
            fields["stage"]["micro_batch"] += 1

    verdict = diagnose(PipelineJob(shown=other).write(tmp_path))

    assert verdict.outcome == "not measured"
    assert verdict.reasons[0] == (
        "ranks 0 and 1 are stages of one pipeline, and the step of each takes passes of other micro-batches (3 on "
        "stage 0, 3 on stage 1), so they cannot be put together (3 of 3 steps)"
    )


def test_a_pass_outside_the_schedule_is_not_measured(tmp_path):
    def outside(stage: int, fields: dict[str, Any]) -> None:
        if stage == 1 and fields["kind"] == "backward" and fields["id"] == 2:
            del fields["stage"]

    verdict = diagnose(PipelineJob(shown=outside).write(tmp_path))

    assert verdict.outcome == "not measured"
    assert verdict.reasons[0] == (
        "ranks 0 and 1 are stages of one pipeline and also go backward outside its schedule, so their passes cannot be "
        "put together (1 of 3 steps)"
    )


def test_negative_control_without_stages_ranks_step_on_their_own(tmp_path):
    def unsaid(_: int, fields: dict[str, Any]) -> None:
        if fields["kind"] in ("backward", "parameter"):
            fields.pop("stage")

    verdict = diagnose(PipelineJob(shown=unsaid).write(tmp_path))

    assert verdict.outcome != "right"


def clipped(*factors):
    """A job in which each stage clips to 1, by a norm that gives it this factor."""

    def update(gradients_DMSL, counts_DM):
        return mean_of_all(gradients_DMSL, counts_DM) * np.array(factors)[None, :, None]

    return PipelineJob(update=update, clips={s: [{"norm": 1 / f, "limit": 1.0}] for s, f in enumerate(factors)})


def test_one_clip_of_all_stages_is_undone(tmp_path):
    verdict = diagnose(clipped(0.5, 0.5).write(tmp_path))

    assert verdict.outcome == "right"
    assert [cell.share for cell in verdict.cells] == pytest.approx([1, 1, 1], abs=1e-4)


def test_a_clip_by_the_norm_of_each_stage_is_found(tmp_path):
    verdict = diagnose(clipped(0.5, 0.8).write(tmp_path))

    assert verdict.sentence == (
        "Each stage clips its gradients by a norm of its own: factors 0.5 on rank 0, 0.8 on rank 1."
    )
    assert slugs(verdict) == ["norm-misses-shards"]


def test_only_pipelines_of_several_ranks_are_told_of():
    assert pipeline_words.told_by_first([[0, 1], [2]]) == (
        "ranks that run the stages of one pipeline are told as its first rank: ranks 0 and 1 as rank 0"
    )
