"""Ranks that run one model together give one contribution: shards and terms added up, what is whole taken once."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import edited
from audit.sharded_traces import layout, write_sharded
from audit.traces import HandJob, Window, of_kind
from failuremap.audit import trace
from failuremap.audit.steps.story import read_rank
from failuremap.audit.steps.windows import Assembler
from failuremap.audit.verdict import diagnose

ONE = [[300, 200], [300, 200]]
BIAS = slice(128 + 64, 128 + 64 + 8)


def steps_in(folder):
    ranks = [read_rank(read) for read in trace.read_folder(folder)]
    return list(Assembler(ranks, len(ranks)).steps())


def same(gradients, _):
    """Both ranks run one model on one batch: the same gradients."""
    return np.repeat(gradients[:1], len(gradients), axis=0)


def first_rank(window: Window):
    """What one process would step on: its own micro-batches, weighted by their counts."""
    counts = window.counts_RM[0]
    return window.combined(np.array([counts / counts.sum(), np.zeros_like(counts)]))


def model(update=first_rank, gradients=same, counts=ONE):
    """Two ranks that run one model together on one batch."""
    return HandJob(counts, update, gradients=gradients)


def on_one_mesh(folder, job, change=lambda rank, fields: None):
    """Writes a job whose first parameter's gradient lies on a mesh of both ranks, and is whole on each."""

    def edit(rank, records):
        for place in of_kind(records, "backward"):
            fields = records[place][0]
            fields["losses"][0]["fingerprint"] = float(fields["id"])
            change(rank, fields)
        return [*records[:5], (layout(0, "gradient", [rank], [0, 1]), None), *records[5:]]

    return edited(job, folder, edit)


def together(folder, job, **how):
    """The last step of such a job."""
    return steps_in(on_one_mesh(folder, job, **how))[-1]


def slugs(verdict):
    return [candidate.slug for candidate in verdict.findings[0].candidates]


def test_the_passes_of_a_model_are_those_of_its_first_rank(tmp_path):
    step = together(tmp_path, model())

    assert (step.ranks, step.keys, len(step.parts)) == ([0], [(0, 0), (0, 1)], 1)
    assert step.contributions_KL.shape[0] == len(step.backwards) == 2
    assert (step.sharding.reasons, step.sharding.own_parts, step.sharding.group_sizes) == ([], {}, {1, 2})


def test_shards_of_a_gradient_add_up(tmp_path):
    job = model()
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    whole = together(tmp_path / "whole", job)

    parts = steps_in(write_sharded(job, tmp_path / "parts", [[0, 1]], "gradient", "update", "weights"))[-1]

    np.testing.assert_allclose(parts.contributions_KL, whole.contributions_KL, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(parts.updates_RL, whole.updates_RL, rtol=1e-5, atol=1e-6)


def test_ranks_without_a_mesh_run_models_of_their_own(tmp_path):
    step = steps_in(model().write(tmp_path))[-1]

    assert (step.ranks, len(step.keys)) == ([0, 1], 4)


def with_parts_of_the_bias(gradients, _):
    """The bias is used on two parts of the sequence: each rank has a term of its gradient."""
    found = same(gradients, _)
    found[1, :, BIAS] = gradients[1, :, BIAS]
    return found


def added_up(window: Window):
    update = first_rank(window)
    counts = window.counts_RM[0]
    update[:, BIAS] += counts / counts.sum() @ window.gradients_RML[1][:, BIAS]
    return update


def each_its_own(window: Window):
    update = first_rank(window)
    counts = window.counts_RM[0]
    update[1, BIAS] = counts / counts.sum() @ window.gradients_RML[1][:, BIAS]
    return update


def averaged(window: Window):
    update = added_up(window)
    update[:, BIAS] /= 2
    return update


def test_terms_that_are_added_up_are_right(tmp_path):
    verdict = diagnose(on_one_mesh(tmp_path, means(added_up)))

    assert (verdict.outcome, verdict.notes[1:]) == ("right", [])


def means(update):
    """Equal micro-batches, so that their mean is right."""
    return model(update, with_parts_of_the_bias, [[300, 300], [300, 300]])


def test_terms_that_each_rank_steps_on_alone_are_found(tmp_path):
    verdict = diagnose(on_one_mesh(tmp_path, means(each_its_own)))

    assert verdict.outcome == "wrong"
    assert verdict.sentence == (
        "On 1 of 4 parameters each rank steps on its own part of the gradient; the parts of the ranks that run one "
        "model together are never added up: layer.bias."
    )
    assert verdict.findings[0].parameters == ["layer.bias"]
    assert slugs(verdict) == ["partials-not-reduced"]


def test_terms_that_are_averaged_are_found(tmp_path):
    verdict = diagnose(on_one_mesh(tmp_path, means(averaged)))

    assert verdict.outcome == "wrong"
    assert verdict.sentence == "1 parameter gets 0.5 times the update of the rest: layer.bias."
    assert slugs(verdict) == []


def test_ranks_of_one_model_with_other_targets_are_not_measured(tmp_path):
    def other_targets(rank, fields):
        fields["losses"][0]["fingerprint"] += 1000.0 * rank

    verdict = diagnose(on_one_mesh(tmp_path, means(each_its_own), change=other_targets))

    assert verdict.outcome == "not measured"
    assert verdict.reasons[0] == (
        "ranks 0 and 1 run one model together and their losses are of different targets: whether each reads a part of "
        "the batch, or another batch by mistake, cannot be told; give all of them the same targets (3 of 3 steps)"
    )


def test_the_losses_of_a_model_may_be_told_by_one_rank_alone(tmp_path):
    def last_rank_tells(rank, fields):
        if rank == 0:
            fields["losses"] = []

    verdict = diagnose(on_one_mesh(tmp_path, means(added_up), change=last_rank_tells))

    assert verdict.outcome == "right"


def test_ranks_of_one_model_that_pass_unlike_often_are_not_measured(tmp_path):
    def edit(rank, records):
        for place in reversed(of_kind(records, "backward")) if rank else []:
            if records[place][0]["id"] % 2:
                del records[place]
        return [*records[:5], (layout(0, "gradient", [rank], [0, 1]), None), *records[5:]]

    verdict = diagnose(edited(means(added_up), tmp_path, edit))

    assert verdict.outcome == "not measured"
    assert verdict.reasons[0] == (
        "ranks 0 and 1 run one model together and went backward 2, 1 times before the step, so their passes cannot be "
        "put together (3 of 3 steps)"
    )


def test_ranks_of_one_model_that_step_apart_are_not_measured(tmp_path):
    def apart(window: Window):
        update = first_rank(window)
        update[1, BIAS] *= 1.5
        return update

    verdict = diagnose(on_one_mesh(tmp_path, model(apart, counts=[[300, 300], [300, 300]])))

    assert verdict.outcome == "not measured"
    assert (
        "ranks 0 and 1 run one model together and step on different updates of layer.bias (3 of 3 steps)"
        in verdict.reasons
    )


def test_two_models_are_two_contributions(tmp_path):
    def pairs(gradients, _):
        return gradients[[0, 0, 2, 2]]

    job = HandJob(
        [[300], [300], [200], [200]], lambda window: window.combined([[0.5], [0], [0.5], [0]]), gradients=pairs
    )

    def edit(rank, records):
        for place in of_kind(records, "backward"):
            records[place][0]["losses"][0]["fingerprint"] = records[place][0]["id"] + 100.0 * (rank // 2)
        mesh = [0, 1] if rank < 2 else [2, 3]
        return [*records[:5], (layout(0, "gradient", [rank], mesh), None), *records[5:]]

    verdict = diagnose(edited(job, tmp_path, edit))

    assert verdict.sentence == "A token on rank 2 weighs 1.50 times a token on rank 0."
    assert slugs(verdict) == ["replica-means-ignore-counts"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_that_differ_by_rounding_are_no_terms_of_a_sum(dtype, tmp_path):
    def rounded(gradients, _):
        found = same(gradients, _)
        found[1] *= 1 + 2e-6 * np.sin(np.arange(found.shape[-1]))
        return found

    job = HandJob([[300, 300], [300, 300]], first_rank, gradients=rounded, dtype=dtype)
    verdict = diagnose(on_one_mesh(tmp_path, job))

    assert (verdict.outcome, verdict.reasons) == ("right", [])
