"""Shards of updates and weights put together: the whole is what a rank without shards would have written."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import edited
from audit.sharded_traces import spread, write_sharded
from audit.traces import HandJob, of_kind, write_records
from failuremap.audit import trace
from failuremap.audit.signs.replicas import final_agreement
from failuremap.audit.steps.story import read_rank
from failuremap.audit.steps.windows import Assembler
from failuremap.audit.verdict import diagnose

EVEN = [[300, 300], [300, 300]]
FOUR = [[300], [200], [250], [100]]


def ranks_in(folder):
    return [read_rank(read) for read in trace.read_folder(folder)]


def steps_in(folder):
    ranks = ranks_in(folder)
    return list(Assembler(ranks, len(ranks)).steps())


def both(job: HandJob, tmp_path, groups):
    """The last step of a job, whole and in shards."""
    (tmp_path / "whole").mkdir()
    (tmp_path / "shards").mkdir()
    whole = steps_in(job.write(tmp_path / "whole"))[-1]
    return whole, steps_in(write_sharded(job, tmp_path / "shards", groups))[-1]


@pytest.mark.parametrize(
    ("counts", "groups"),
    [(EVEN, [[0, 1]]), (FOUR, [[0, 1, 2, 3]]), (FOUR, [[0, 1], [2, 3]]), (FOUR, [[0, 2], [1, 3]])],
    ids=str,
)
def test_the_updates_of_shards_are_those_of_the_whole(counts, groups, tmp_path):
    whole, shards = both(HandJob(counts), tmp_path, groups)

    np.testing.assert_allclose(shards.updates_RL, whole.updates_RL, rtol=1e-5, atol=1e-6)
    assert (shards.ranks, shards.keys, shards.weights_equal) == (whole.ranks, whole.keys, True)
    np.testing.assert_array_equal(shards.present_RP, whole.present_RP)


def test_the_length_of_an_update_is_that_of_all_its_shards(tmp_path):
    for rank, records in enumerate(HandJob(EVEN).records()):
        for place in of_kind(records, "step"):
            norms = [{"parts": [[0, 2, 1]], "norm": 3.0 + rank}, {"parts": [], "norm": 12.0}]
            records[place][0]["norms"] = norms
        write_records(tmp_path, rank, records)

    assert [step.length for step in steps_in(tmp_path)] == [13.0] * 3  # 3^2 + 4^2 + 12^2


def test_the_length_is_not_known_where_a_rank_does_not_tell_its_own(tmp_path):
    for rank, records in enumerate(HandJob(EVEN).records()):
        for place in of_kind(records, "step"):
            records[place][0]["norms" if rank == 0 else "norm"] = (
                [{"parts": [[0, 2, 1]], "norm": 3.0}] if rank == 0 else None
            )
        write_records(tmp_path, rank, records)

    assert [step.length for step in steps_in(tmp_path)] == [None] * 3


def test_a_job_without_shards_is_left_as_it_is(tmp_path):
    (step, *_) = steps_in(HandJob(EVEN).write(tmp_path))

    assert step.sharding is None


def test_what_each_rank_has_itself_is_kept(tmp_path):
    step = steps_in(write_sharded(HandJob(EVEN), tmp_path, [[0, 1]]))[-1]

    sharding = step.sharding
    np.testing.assert_allclose(sharding.updates_RL.sum(axis=0), step.updates_RL[0], rtol=1e-6, atol=1e-6)
    assert [(shard.rank, shard.parameter) for shard in sharding.shards[:3]] == [(0, 0), (1, 0), (0, 1)]
    first, second = sharding.shards[:2]
    np.testing.assert_array_equal([*first.columns, *second.columns], np.arange(64))
    assert (sharding.reasons, sharding.own_parts, sharding.group_sizes) == ([], {}, {2})


def test_right_shards_are_right(tmp_path):
    assert diagnose(write_sharded(HandJob(EVEN), tmp_path, [[0, 1]])).outcome == "right"


def test_a_shard_without_a_gradient_is_not_measured(tmp_path):
    job = HandJob([[300], [300]])

    def lose_a_shard(rank, records):
        spread_out = spread(records, rank, job, [0, 1], "update", "weights")
        for place in of_kind(spread_out, "step") if rank == 1 else []:
            fields, numbers = spread_out[place]
            fewer = {**fields, "parameters": [0, 1, 2], "absent": ["head.weight"]}
            spread_out[place] = (fewer, _without_last(numbers))
        return spread_out

    verdict = diagnose(edited(job, tmp_path, lose_a_shard))

    assert verdict.outcome == "not measured"
    assert (
        "the update of head.weight is not whole: rank 1 had no gradient for its shard (3 of 3 steps)" in verdict.reasons
    )


def _without_last(numbers):
    """The numbers of a step without its last parameter: 80 of the update, and 80 of the weights."""
    update = 128 + 64 + 8 + 80
    return np.concatenate([numbers[: update - 80], numbers[update:-80]])


def test_replicas_of_shards_that_differ_are_found(tmp_path):
    job = HandJob(FOUR, weights=lambda weights, rank: weights + (rank > 1))

    step = steps_in(write_sharded(job, tmp_path, [[0, 1], [2, 3]]))[0]

    assert step.weights_equal is False
    assert len(step.weights_differ_in) == 4


def test_shards_are_no_replicas_that_differ_at_the_end(tmp_path):
    assert final_agreement(ranks_in(write_sharded(HandJob(EVEN), tmp_path, [[0, 1]])))[0] == set()


def test_replicas_of_shards_that_differ_at_the_end_are_found(tmp_path):
    job = HandJob(FOUR, weights=lambda weights, rank: weights + (rank > 1))

    assert len(final_agreement(ranks_in(write_sharded(job, tmp_path, [[0, 1], [2, 3]])))[0]) == 4


def test_a_shard_that_is_read_as_the_whole_would_be_wrong(tmp_path):
    job = HandJob(EVEN)

    def forget_layouts(rank, records):
        spread_out = spread(records, rank, job, [0, 1], "update", "weights")
        return [(fields, numbers) for fields, numbers in spread_out if fields["kind"] != "layout"]

    assert diagnose(edited(job, tmp_path, forget_layouts)).outcome != "right"
