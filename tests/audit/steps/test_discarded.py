"""Gradients that were cleared before a step: a window that was left out, micro-batches that are lost, or no telling."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import EVEN, combined, judged_in, kinds
from audit.small_traces import opened, passed, ranks_of, stepped
from audit.traces import HandJob, end, of_kind, write_records
from failuremap.audit import diagnose
from failuremap.audit.steps.discarded import LEFT_OUT, UNTOLD, Discarded


def job(*windows, rank=None):
    """Records of one rank: for each step the lengths of the runs between two clearings."""
    records, number = opened() if rank is None else opened(rank, 2), 0
    for count, runs in enumerate(windows):
        for length in runs:
            for place in range(length):
                records.append(passed(number, kept=[0, 1] if place else []))
                number += 1
        records.append(stepped(count))
    return records


def told(tmp_path, *windows):
    """The runs of each step, with the reasons by which passes are set aside and whether there is a doubt."""
    (rank,) = ranks_of(tmp_path, job(*windows))
    discarded = Discarded([rank])
    return [(list(discarded.reasons(part).values()), len(discarded.doubts(part))) for part in rank.parts]


def test_the_passes_before_a_step_are_sorted_by_where_gradients_were_cleared(tmp_path):
    (rank,) = ranks_of(tmp_path, job([3], [1, 2]))

    assert [part.runs for part in rank.parts] == [[[0, 1, 2]], [[3], [4, 5]]]
    assert [part.discarded for part in rank.parts] == [set(), {3}]


@pytest.mark.parametrize("earlier", [passed(0, fill=0.0), passed(0, ids=[0])], ids=["zero", "of another parameter"])
def test_a_pass_that_found_nothing_where_nothing_was_left_clears_nothing(earlier, tmp_path):
    (rank,) = ranks_of(tmp_path, [*opened(), earlier, passed(1, ids=[1]), stepped()])

    assert rank.parts[0].runs == [[0, 1]]


def test_a_window_of_the_usual_length_that_was_cleared_was_left_out(tmp_path):
    assert told(tmp_path, [2], [2, 2], [2]) == [([], 0), ([LEFT_OUT] * 2, 0), ([], 0)]


def test_several_windows_may_be_left_out_before_one_step(tmp_path):
    assert told(tmp_path, [1, 1, 1], [1], [1])[0] == ([LEFT_OUT] * 2, 0)


@pytest.mark.parametrize("windows", [([1, 1], [1, 1]), ([1, 1, 1], [1, 1, 1], [1]), ([1, 2], [1, 2], [1, 2])], ids=str)
def test_what_is_cleared_in_most_windows_is_owed(windows, tmp_path):
    assert told(tmp_path, *windows) == [([], 0)] * len(windows)


@pytest.mark.parametrize("windows", [([1, 1],), ([1, 1], [1]), ([1], [1, 1], [1, 1], [1])], ids=str)
def test_where_clearing_is_neither_the_rule_nor_the_exception_it_cannot_be_told(windows, tmp_path):
    found = told(tmp_path, *windows)

    assert found == [([UNTOLD], 1) if len(runs) > 1 else ([], 0) for runs in windows]


def test_a_part_of_a_window_that_was_cleared_once_cannot_be_told(tmp_path):
    assert told(tmp_path, [3], [3], [2, 3]) == [([], 0), ([], 0), ([UNTOLD] * 2, 1)]


def test_a_batch_that_went_through_again_tells_nothing_of_the_other_steps(tmp_path):
    """Sharpness-aware minimisation goes twice over each batch; a window that was left out is none of its passes."""
    records, number = opened(), 0
    for count, prints in enumerate(([1, 1], [2, 2, 3, 3], [4, 4], [5, 5])):
        for batch in prints:
            fields, numbers = passed(number)
            fields["losses"][0]["fingerprint"] = float(batch)
            records.append((fields, numbers))
            number += 1
        records.append(stepped(count))

    (rank,) = ranks_of(tmp_path, records)

    assert Discarded([rank]).reasons(rank.parts[1]) == {
        2: LEFT_OUT,
        3: LEFT_OUT,
        4: "the same batch went through again before the step",
    }


@pytest.mark.parametrize(("runs", "is_owed"), [([1, 1], True), ([1, 2], False)], ids=str)
def test_what_a_rank_cleared_is_owed_where_another_made_as_many_passes_and_cleared_none(runs, is_owed, tmp_path):
    ranks = ranks_of(tmp_path, job([2], [2], rank=0), job(runs, runs, rank=1))
    discarded = Discarded(ranks)

    assert [part.discarded != set() for rank in ranks for part in rank.parts] == [False, False, True, True]
    assert [discarded.doubts(part) == [] for part in ranks[1].parts] == [is_owed] * 2


# ---- the verdict


def with_one_left_out(windows, tmp_path):
    """A job of which the gradients of one window are cleared: its step record, and the one after it, are taken away."""
    made = HandJob([[300, 200], [100, 400]], combined(0.25), lambda counts: 4 * counts / counts.sum(), steps=windows)
    for rank, records in enumerate(made.records()):
        place = of_kind(records, "step")[1]
        del records[place]
        for step_place, count in zip(of_kind(records, "step"), range(windows), strict=False):
            records[step_place][0]["count"] = count
        write_records(tmp_path, rank, records)
    return tmp_path


def test_a_job_that_leaves_a_window_out_is_right(tmp_path):
    verdict = diagnose(with_one_left_out(5, tmp_path))

    assert (verdict.outcome, verdict.reasons) == ("right", [])
    assert f"set aside: {LEFT_OUT} (1 of 4 steps)" in verdict.notes


def test_a_job_that_leaves_a_window_out_and_ignores_counts_is_wrong_for_that_alone(tmp_path):
    job = HandJob([[300, 200], [100, 400]], steps=5)
    for rank, records in enumerate(job.records()):
        del records[of_kind(records, "step")[1]]
        write_records(tmp_path, rank, records)

    assert {kind for judged in judged_in(tmp_path) for kind in kinds(judged)} == {"weights"}


def test_a_job_that_clears_between_its_micro_batches_loses_them(tmp_path):
    verdict = diagnose(HandJob([[300, 200], [100, 400]], combined([0, 0.5]), keeps=False).write(tmp_path))

    assert verdict.outcome == "wrong"
    assert [one.slug for one in verdict.findings[0].candidates] == ["accumulator-overwritten"]


def test_one_step_does_not_tell_a_lost_micro_batch_from_a_window_that_was_left_out(tmp_path):
    verdict = diagnose(HandJob(EVEN, combined([0, 0.5]), keeps=False, steps=1).write(tmp_path))

    assert verdict.outcome == "cannot tell"
    assert verdict.reasons[0] == (
        "the gradients of 1 backward pass were cleared before a step: whether a micro-batch is lost or a step was left "
        "out cannot be told from these steps; audit more steps (1 of 1 steps)"
    )


def test_part_of_a_window_that_was_cleared_once_is_a_reason(tmp_path):
    records, number = [*opened()], 0
    generator = np.random.default_rng(3)
    for count, runs in enumerate(([2], [2], [1, 2], [2])):
        for length in runs:
            window = np.zeros(7, dtype=np.float32)
            for place in range(length):
                numbers = generator.normal(size=7).astype(np.float32)
                window += numbers / 2
                fields, _ = passed(number, kept=[0, 1] if place else [])
                records.append((fields, numbers))
                number += 1
        fields, _ = stepped(count)
        records.append((fields, np.concatenate([window, np.full(7, 0.5, dtype=np.float32)])))
    write_records(tmp_path, 0, [*records, (end([], 4), None)])

    verdict = diagnose(tmp_path)

    assert verdict.outcome == "cannot tell"
    assert verdict.reasons[0] == (
        "the gradients of 1 backward pass were cleared before a step, where a window has 2: whether they are lost or "
        "were left out on purpose cannot be told (1 of 4 steps)"
    )


def copied(*windows):
    """Records of one rank whose passes find a gradient in a copy alone: for each step the number of its passes."""
    records, number = opened(), 0
    for count, length in enumerate(windows):
        for _ in range(length):
            records.append(passed(number, kept=[0, 1], kept_in_copies=True))
            number += 1
        records.append(stepped(count))
    return records


@pytest.mark.parametrize(
    ("windows", "runs"), [((2, 2, 2), [1, 1, 1]), ((1, 2, 1), [1, 2, 1]), ((1, 1), [1, 1])], ids=str
)
def test_a_copy_is_added_to_where_most_windows_have_several_passes_else_it_is_written_over(windows, runs, tmp_path):
    (rank,) = ranks_of(tmp_path, copied(*windows))

    assert [len(part.runs) for part in rank.parts] == runs


@pytest.mark.parametrize(("first", "runs"), [(2, [1, 1, 1]), (3, [3, 1, 1])])
def test_before_copies_are_known_as_many_passes_as_a_window_has_are_one_run(first, runs, tmp_path):
    records = copied(first, 2, 2)
    for place in of_kind(records, "backward")[:first]:
        records[place][0].update(kept=[], kept_in_copies=False)
    for later in (of_kind(records, "backward")[first], of_kind(records, "backward")[first + 2]):
        records[later][0].update(kept=[], kept_in_copies=False)

    (rank,) = ranks_of(tmp_path, records)

    assert [len(part.runs) for part in rank.parts] == runs
