"""One loss function at two lines: micro-batches of one loss, or terms of their own, or open."""

from __future__ import annotations

import pytest

from audit.judging import combined, judged_in, kinds, silent, with_losses
from audit.traces import HandJob
from failuremap.audit import diagnose

ONE = "cross_entropy(mean) at train.py:41"
OTHER = "cross_entropy(mean) at train.py:52"
SHORT_TAIL = [[300, 100], [300, 100]]


def at_two_lines(folder, counts, scales, *, second=None):
    """Two ranks on averaged gradients; the last micro-batch, or others, call the loss at a line of their own."""
    window = len(counts[0])
    on_other = second or {window - 1}

    def change(fields):
        place = fields["id"] % window
        fields["losses"][0]["scale"] = scales[place]
        if place in on_other:
            fields["losses"][0]["site"] = "train.py:52"

    job = HandJob(counts, combined(0.5))
    return with_losses(job, folder, change)


def judged(folder, *args, **more):
    return judged_in(at_two_lines(folder, *args, **more))[-1]


def test_right_as_one_loss_is_right(tmp_path):
    found = judged(tmp_path, [[300, 300], [300, 300]], [0.5, 0.5])

    assert (silent(found), found.notes) == (True, [])


def test_two_means_are_terms_of_their_own_and_what_else_they_may_be_is_a_note(tmp_path):
    found = judged(tmp_path, [[300, 300], [300, 300]], [1.0, 1.0])

    assert silent(found)
    (note,) = found.notes
    assert note == (
        f"{ONE} and {OTHER} are read as terms of their own; if they are micro-batches of one loss: "
        "The update is 2 times the mean over all tokens."
    )


def test_terms_with_weights_of_their_own_are_right(tmp_path):
    found = judged(tmp_path, SHORT_TAIL, [1.0, 0.3])

    assert (found.faults, found.doubts, found.unexplained) == ([], [], [])


def test_two_lines_with_half_a_mean_each_are_open(tmp_path):
    verdict = diagnose(at_two_lines(tmp_path, SHORT_TAIL, [0.5, 0.5]))

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    (reason,) = verdict.reasons
    assert reason == (
        f"{ONE} and {OTHER} may be micro-batches of one loss, and then: A token in micro-batch 1 weighs 3.00 times a "
        "token in micro-batch 0. Or they are terms of their own with a weight each, and then nothing is wrong. Call "
        "the loss at one line if it is one; otherwise add up the terms and call backward once (3 of 3 steps)"
    )


@pytest.mark.parametrize(
    ("counts", "scale"),
    [([[300] * 4, [300] * 4], 1.0), ([[300, 300, 300, 100]] * 2, 0.25)],
    ids=["no division", "a short last micro-batch"],
)
def test_a_line_of_its_own_for_the_last_of_many_micro_batches_hides_no_fault(counts, scale, tmp_path):
    assert kinds(judged(tmp_path, counts, [scale] * 4)) in (["total"], ["weights"])


def test_negative_control_a_mean_at_each_of_two_lines_in_turn_is_no_fault(tmp_path):
    assert silent(judged(tmp_path, [[300] * 4, [300] * 4], [0.5] * 4, second={1, 3}))
