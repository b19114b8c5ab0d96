"""What a trace says of stages is read back, and optimizers of several stages of a rank step together."""

from __future__ import annotations

from audit.small_traces import numbers, opened, passed, ranks_of, steps_of
from audit.traces import step
from failuremap.audit.steps.stages import Stage, micro_batches, name_on, stage_of


def of_stage(index, micro_batch, rounds=0):
    """What a pass says of its place."""
    return {"index": index, "micro_batch": micro_batch, "round": rounds, "ranks": [[0, 1, 1]]}


def test_the_place_of_a_pass_is_read():
    assert stage_of({"stage": of_stage(3, 2, 5)}) == Stage(3, (5, 2), (0,))
    assert stage_of({}) is None


def test_a_name_says_the_stage_where_there_is_one():
    assert (name_on("w", 2), name_on("w", None)) == ("w (stage 2)", "w")


def interleaved(kept=()):
    """One rank with two stages, one parameter and one optimizer each; two micro-batches."""
    records = opened(names={"a": (4,), "b": (3,)})
    for id, (index, micro_batch) in enumerate([(1, 0), (1, 1), (0, 0), (0, 1)]):
        records.append(passed(id, ids=(index,), kept=[index] * micro_batch, stage=of_stage(index, micro_batch)))
    for index, size in enumerate((4, 3)):
        update = numbers(*[2.0] * size, *range(size))
        records.append((step(0, [index], optimizer=index), update))
    return records


def test_a_micro_batch_counts_once_however_many_stages_a_rank_has(tmp_path):
    (part,) = ranks_of(tmp_path, interleaved())[0].parts

    assert (len(part.backwards), micro_batches(part.backwards)) == (4, 2)


def test_optimizers_of_the_stages_of_a_rank_make_one_step(tmp_path):
    (found,) = steps_of(tmp_path, interleaved())

    assert (found.keys, found.updates_RL.tolist()) == ([(0, 0), (0, 1)], [[2.0] * 7])
    assert found.contributions_KL.tolist() == [[1.0] * 7] * 2


def test_negative_control_without_stages_they_make_a_step_each(tmp_path):
    records = [({k: v for k, v in fields.items() if k != "stage"}, payload) for fields, payload in interleaved()]

    assert len(steps_of(tmp_path, records)) == 2
