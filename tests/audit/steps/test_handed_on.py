"""Pipelines by hand: passes are followed by the gradients that ranks send; where one is lost, nothing is concluded."""

from __future__ import annotations

from typing import Any

import pytest

from audit.pipeline_traces import PipelineJob, ranks_in
from failuremap.audit import trace
from failuremap.audit.sentences import pipeline_words
from failuremap.audit.steps.handed_on import read_ranks
from failuremap.audit.verdict import diagnose


def stages_of(folder):
    """The stage and the micro-batch of each pass, rank by rank."""
    ranks = read_ranks(trace.read_folder(folder))
    return [
        [None if b.stage is None else (b.stage.index, b.stage.slot[1]) for part in rank.parts for b in part.backwards]
        for rank in ranks
    ]


def test_passes_are_followed_to_those_that_start_from_a_loss(tmp_path):
    PipelineJob(by_hand=True, steps=1, orders={0: [2, 0, 1]}).write(tmp_path)

    assert stages_of(tmp_path) == [[(0, 2), (0, 0), (0, 1)], [(1, 0), (1, 1), (1, 2)]]


def test_three_stages_are_followed_twice(tmp_path):
    PipelineJob(by_hand=True, steps=1, stages=3, orders={1: [1, 0, 2]}).write(tmp_path)

    assert stages_of(tmp_path) == [
        [(0, 0), (0, 1), (0, 2)], [(1, 1), (1, 0), (1, 2)], [(2, 0), (2, 1), (2, 2)],
    ]  # fmt: skip


def test_each_replica_is_a_pipeline_of_its_own(tmp_path):
    PipelineJob(((300,), (300,)), by_hand=True).write(tmp_path)

    ranks = read_ranks(trace.read_folder(tmp_path))

    assert [rank.parts[0].backwards[0].stage.ranks for rank in ranks] == [(0, 1), (0, 1), (2, 3), (2, 3)]


def test_what_a_pass_starts_from_is_no_loss_that_was_not_seen(tmp_path):
    PipelineJob(by_hand=True).write(tmp_path)

    assert [b.unseen for b in ranks_in(tmp_path)[0].parts[0].backwards] == [["Tanh"]] * 3
    assert [b.unseen for b in read_ranks(trace.read_folder(tmp_path))[0].parts[0].backwards] == [[]] * 3


def test_equal_micro_batches_are_right(tmp_path):
    assert diagnose(PipelineJob(((300, 300), (300, 300)), by_hand=True).write(tmp_path)).outcome == "right"


def test_what_was_not_seen_to_be_the_gradient_of_an_input_leaves_the_verdict_open(tmp_path):
    verdict = diagnose(PipelineJob(by_hand=True, seen_gradients=False).write(tmp_path))

    assert verdict.outcome == "cannot tell"
    assert verdict.reasons == [f"{pipeline_words.BELIEVED} (3 of 3 steps)"]
    assert pipeline_words.BELIEVED == (
        "what a stage sends back is not seen to be the gradient of its input, and a factor there would not show: let "
        "the very tensor that it received require the gradient, and send that gradient as it is"
    )


def test_means_over_micro_batches_of_other_sizes_are_wrong(tmp_path):
    verdict = diagnose(PipelineJob(((400, 300, 100),), by_hand=True, orders={0: [2, 1, 0]}).write(tmp_path))

    assert verdict.sentence == "A token in micro-batch 2 weighs 4.00 times a token in micro-batch 0."


def receiving(change):
    """Changes what the second pass of the first stage was started from."""

    def shown(stage: int, fields: dict[str, Any]) -> None:
        if stage == 0 and fields["kind"] == "backward" and fields["id"] == 1:
            fields["received"] = [change(number) for number in fields["received"]]

    return shown


def sending(change):
    """Changes what the last stage tells of its sends."""

    def shown(stage: int, fields: dict[str, Any]) -> None:
        for call in fields.get("calls", ()) if stage == 1 and fields["kind"] == "collectives" else ():
            change(call)

    return shown


@pytest.mark.parametrize(
    "shown",
    [
        receiving(lambda number: number / 2),
        receiving(lambda number: number - 100),
        sending(lambda call: call.update(sent=[0.0])),
        sending(lambda call: call.update(sent=[float("nan")])),
        sending(lambda call: call.update(passes=3)),
        sending(lambda call: call.update(sent=[])),
    ],
    ids=["scaled", "received twice", "of nothing", "not a number", "all sent at the end", "not told"],
)
def test_where_a_pass_is_lost_nothing_is_concluded(tmp_path, shown):
    PipelineJob(by_hand=True, shown=shown).write(tmp_path)

    assert {place for rank in stages_of(tmp_path) for place in rank} == {None}
    assert diagnose(tmp_path).outcome != "right"


def test_numbers_that_differ_in_the_last_places_are_the_same(tmp_path):
    PipelineJob(by_hand=True, shown=receiving(lambda number: number * (1 + 1e-12))).write(tmp_path)

    assert None not in stages_of(tmp_path)[0]


def test_gradients_that_no_rank_sends_are_no_pipeline(tmp_path):
    """As of a script that computes the gradient of its logits itself."""

    def alone(_: int, fields: dict[str, Any]) -> None:
        if fields["kind"] == "backward":
            fields["received"] = [float(fields["id"]) + 0.5]
        fields.pop("calls", None) if fields["kind"] != "collectives" else fields.update(calls=[])

    PipelineJob(by_hand=True, shown=alone).write(tmp_path)

    assert {place for rank in stages_of(tmp_path) for place in rank} == {None}
