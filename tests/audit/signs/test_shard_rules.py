"""Shards that follow rules of their own are judged rank by rank; what is the same on all of them is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import edited
from audit.sharded_traces import spread, write_sharded
from audit.traces import HandJob, of_kind, rows
from failuremap.audit import trace
from failuremap.audit.fitting.observe import observe
from failuremap.audit.fitting.shard_fit import explained_by_shard, shard_rules
from failuremap.audit.steps.story import read_rank
from failuremap.audit.steps.windows import Assembler
from failuremap.audit.verdict import diagnose
from failuremap.catalogue.recognise import recognise
from failuremap.catalogue.signs import Sign

EVEN = [[300, 300], [300, 300]]
SIZES = [rows(shape) for shape in HandJob().shapes.values()]


def last(folder):
    """The last step of the traces in a folder, fitted."""
    ranks = [read_rank(read) for read in trace.read_folder(folder)]
    *_, step = Assembler(ranks, len(ranks)).steps()
    return observe(step, None)


def rules(folder):
    fitted = last(folder)
    return shard_rules(fitted.step, fitted.classes, np.ones(len(fitted.step.parameters), dtype=bool))


def test_each_rank_has_the_rule_of_its_shards(tmp_path):
    first, second = rules(write_sharded(HandJob(EVEN), tmp_path, [[0, 1]], factors=[1.0, 0.4]))

    np.testing.assert_allclose(first.coefficients_K, 0.25, rtol=1e-5)
    np.testing.assert_allclose(second.coefficients_K, 0.1, rtol=1e-5)
    assert (first.rank, second.rank, first.others, second.others) == (0, 1, [], [])


def test_shards_scaled_by_each_rank_are_found(tmp_path):
    verdict = diagnose(write_sharded(HandJob(EVEN), tmp_path, [[0, 1]], factors=[0.4, 1.0]))

    assert verdict.outcome == "wrong"
    assert verdict.sentence == (
        "Each rank scales its own shard of the update by another factor: relative to the largest, 0.4 on rank 0, "
        "1 on rank 1."
    )
    assert (verdict.findings[0].parameter_count, verdict.findings[0].steps) == (4, [1, 2, 3])


@pytest.mark.parametrize("factor", [0.4, 0.999, 0.9995])
def test_a_difference_that_looks_like_rounding_is_none_where_each_shard_follows_a_rule(factor, tmp_path):
    assert diagnose(write_sharded(HandJob(EVEN), tmp_path, [[0, 1]], factors=[factor, 1.0])).outcome == "wrong"


@pytest.mark.parametrize("factor", [1.0, 0.4])
def test_one_factor_on_all_shards_is_not_found(factor, tmp_path):
    verdict = diagnose(write_sharded(HandJob(EVEN), tmp_path, [[0, 1]], factors=[factor, factor]))

    assert verdict.outcome == "right"


def test_rounding_on_the_way_is_not_taken_for_shards_of_their_own(tmp_path):
    def rounded(window):
        update = window.combined(0.25)
        return np.repeat((update[:1] * (1 + 5e-4 * np.sin(np.arange(update.shape[1])))), 2, axis=0)

    fitted = last(write_sharded(HandJob(EVEN, rounded), tmp_path, [[0, 1]]))

    assert not explained_by_shard(fitted.step, fitted.classes, np.ones(4, dtype=bool))
    assert fitted.observations[0].rounding > 0


def other_combination(rank, records, job):
    """On rank 1 the shards are another combination of the gradients."""
    found = spread(records, rank, job, [0, 1], "update", "weights")
    for place in of_kind(found, "step") if rank else []:
        fields, numbers = found[place]
        window = job.windows()[fields["count"]]
        update = np.einsum("r,rml->l", [0.4, 0.1], window.gradients_RML).astype(np.float32)
        other = spread([({**fields}, np.concatenate([update, numbers[len(update) :]]))], 1, job, [0, 1], "update")
        found[place] = other[0]
    return found


def test_shards_of_other_combinations_are_found(tmp_path):
    job = HandJob(EVEN)
    verdict = diagnose(edited(job, tmp_path, lambda rank, records: other_combination(rank, records, job)))

    assert verdict.sentence == (
        "The shards of the update are different combinations of the gradients: coefficients 0.25 0.25 0.25 0.25 on "
        "rank 0, 0.4 0.4 0.1 0.1 on rank 1."
    )


def shifted(rank, records, job):
    """On rank 1 the shards lie one element further than the gradients."""
    found = spread(records, rank, job, [0, 1], "update", "weights")
    for place in of_kind(found, "step") if rank else []:
        fields, numbers = found[place]
        update = sum(SIZES)
        found[place] = (fields, np.concatenate([np.roll(numbers[:update], 1), numbers[update:]]))
    return found


def test_shards_that_hold_nothing_of_the_gradients_at_their_place_are_told(tmp_path):
    job = HandJob(EVEN)
    verdict = diagnose(edited(job, tmp_path, lambda rank, records: shifted(rank, records, job)))

    assert verdict.outcome == "cannot tell"
    (reason,) = verdict.reasons
    assert reason == (
        "on rank 1 the shards of 4 parameters are no combination of the gradients at their place, first embed.weight "
        "at 1 to 1; the shards of the other ranks are: do shards and gradients lie at the same offsets? (3 of 3 steps)"
    )


def test_where_no_rank_has_a_rule_it_is_not_the_shards(tmp_path):
    def noise(window):
        return np.repeat(np.random.default_rng(50 + window.number).normal(size=(1, sum(SIZES))), 2, axis=0)

    verdict = diagnose(write_sharded(HandJob(EVEN, noise), tmp_path, [[0, 1]]))

    assert verdict.outcome == "cannot tell"
    assert "no combination of the gradients that backward computed" in verdict.reasons[0]


def test_too_few_numbers_say_nothing(tmp_path):
    job = HandJob([[300] * 3, [300] * 3], shapes={"layer.bias": (8,)})
    fitted = last(write_sharded(job, tmp_path, [[0, 1]], factors=[0.4, 1.0]))

    assert shard_rules(fitted.step, fitted.classes, np.ones(1, dtype=bool)) == []


def test_the_signs_of_shards_name_no_fault_of_replicas():
    found = {mechanism.slug for mechanism in recognise([], {Sign.SHARDS_SCALED_APART, Sign.NO_DDP})}

    assert not found & {"clip-in-wrong-place", "replicas-summed", "replicas-start-different"}
