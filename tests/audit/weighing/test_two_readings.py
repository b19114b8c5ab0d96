"""One loss function at two lines: micro-batches of one loss, or terms of their own, over the same units or not."""

from __future__ import annotations

import pytest

from audit.judging import combined, judged_in, kinds, silent, with_losses
from audit.traces import HandJob, loss
from failuremap.audit import diagnose
from failuremap.audit.sentences.loss_words import may_be_summed

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
        f"{ONE} and {OTHER} may be micro-batches of one loss, and then units do not weigh the same, or terms of their "
        "own with a weight each, and then nothing is wrong. Call the loss at one line if it is one; otherwise add up "
        "the terms and call backward once (3 of 3 steps)"
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


@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_a_line_under_no_sync_and_the_one_that_ends_it_are_micro_batches_of_one_loss(scale, tmp_path):
    def change(fields):
        last = fields["id"] % 2 == 1
        fields["losses"][0] |= {"scale": scale, "place": f"train.py:41 < {'ends' if last else 'waits'}"}
        fields["path"] = {"wrappers": 1, "forwards": 1, "armed": int(last), "synchronising": last}

    verdict = diagnose(with_losses(HandJob(SHORT_TAIL, combined(0.5)), tmp_path, change))
    assert verdict.outcome == "wrong"


def test_one_line_that_is_reached_by_two_ways_is_open_as_two_lines_are(tmp_path):
    def change(fields):
        fields["losses"][0] |= {"scale": 0.5, "place": f"train.py:41 < {fields['id'] % 2}"}

    assert diagnose(with_losses(HandJob(SHORT_TAIL, combined(0.5)), tmp_path, change)).outcome == "cannot tell"


# ---- terms over the same units


def of_two_labels(folder, weights, counts=((300,), (300,)), coefficient=0.5):
    """Each rank's loss is made of two, over the same units and with these weights."""

    def change(fields):
        first, second = weights[int(fields["losses"][0]["fingerprint"] // 1000) - 1]
        count = fields["losses"][0]["count"]
        fields["losses"] = [loss(count, first), loss(count, second, site="train.py:42")]

    return with_losses(HandJob(counts, combined(coefficient)), folder, change)


def test_labels_that_each_rank_mixes_by_a_number_of_its_own_are_one_mean(tmp_path):
    verdict = diagnose(of_two_labels(tmp_path, [(0.9, 0.1), (0.4, 0.6)]))

    assert (verdict.outcome, verdict.sentence) == (
        "right",
        "Every token weighs the same: the update is the mean over all tokens.",
    )


@pytest.mark.parametrize("weights", [[(0.9, 0.1), (0.4, 0.6)], [(0.5, 0.5)] * 2], ids=["of its own", "halves"])
def test_mixed_labels_of_unlike_counts_are_as_uneven_as_the_counts(weights, tmp_path):
    verdict = diagnose(of_two_labels(tmp_path, weights, [[100], [300]]))

    assert len(verdict.findings) == 1
    assert verdict.sentence == "A token on rank 0 weighs 3.00 times a token on rank 1."
    assert [candidate.slug for candidate in verdict.findings[0].candidates] == ["replica-means-ignore-counts"]


def test_negative_control_weights_that_add_up_to_no_mean_are_uneven(tmp_path):
    assert diagnose(of_two_labels(tmp_path, [(0.9, 0.1), (0.4, 0.4)])).outcome == "wrong"


def test_halves_on_two_ranks_that_are_summed_are_open(tmp_path):
    verdict = diagnose(of_two_labels(tmp_path, [(0.5, 0.5)] * 2, coefficient=1.0))

    assert (verdict.outcome, verdict.reasons) == (
        "cannot tell",
        [f"{may_be_summed(2, 'token')} (3 of 3 steps)"],
    )


def test_negative_control_three_ranks_that_are_summed_tell_halves(tmp_path):
    counts = [[300]] * 3

    assert diagnose(of_two_labels(tmp_path, [(0.5, 0.5)] * 3, counts, coefficient=1.0)).outcome == "wrong"


def test_labels_that_one_rank_mixes_and_the_other_does_not_are_one_mean(tmp_path):
    def change(fields):
        if fields["losses"][0]["fingerprint"] < 2000:
            fields["losses"] = [loss(300, 0.7), loss(300, 0.3, site="train.py:42")]
        else:
            fields["losses"] = [loss(300, 1.0, site="train.py:44")]

    verdict = diagnose(with_losses(HandJob([[300], [300]], combined(0.5)), tmp_path, change))

    assert verdict.sentence == "Every token weighs the same: the update is the mean over all tokens."


# ---- terms that some ranks do without


def of_two_tasks(folder, first, second):
    """The losses of each rank's one pass."""

    def change(fields):
        fields["losses"] = first if fields["losses"][0]["fingerprint"] < 2000 else second

    return with_losses(HandJob([[300], [300]], combined(0.5)), folder, change)


LABELS = loss(40, 1.0, function="mse_loss", site="train.py:44")


def test_a_mean_that_one_rank_does_without_beside_one_of_all_is_open(tmp_path):
    verdict = diagnose(of_two_tasks(tmp_path, [loss(300), LABELS], [loss(300)]))

    (reason,) = verdict.reasons
    assert verdict.outcome == "cannot tell"
    assert reason == (
        "mse_loss(mean) at train.py:44: rank 1 has none of it and takes a share of the mean over the ranks, so its "
        "units weigh 0.5 of their mean together: right if a task has the weight of the ranks that run it, wrong if "
        "each unit should weigh the same at every step: divide by the units of all ranks then (3 of 3 steps)"
    )


@pytest.mark.parametrize("second", [[LABELS], [loss(300), LABELS]], ids=["a task for each rank", "all have it"])
def test_negative_control_a_mean_beside_which_no_rank_goes_without(second, tmp_path):
    first = [loss(300), LABELS] if len(second) > 1 else [loss(300)]

    assert diagnose(of_two_tasks(tmp_path, first, second)).outcome == "right"


# ---- a number that the script multiplies its loss by


def halved(folder, **more):
    """Two ranks whose losses weigh one half each."""
    return diagnose(of_two_tasks(folder, [loss(300, 0.5, **more)], [loss(300, 0.5, **more)]))


def test_a_half_by_which_the_script_multiplies_on_two_ranks_is_open(tmp_path):
    verdict = halved(tmp_path, times=0.5)

    (reason,) = verdict.reasons
    assert verdict.outcome == "cannot tell"
    assert reason == (
        "together all tokens weigh 0.5 of the mean, and the script multiplies its loss by 0.5: right if that is a "
        "weight, and not if it is meant to divide by ranks or micro-batches, which is done already; both look alike: "
        "audit on another number of ranks, or without the weight (3 of 3 steps)"
    )


@pytest.mark.parametrize("times", [1.0, 0.3])
def test_negative_control_a_half_from_elsewhere_is_a_fault(times, tmp_path):
    assert halved(tmp_path, times=times).outcome == "wrong"


def test_negative_control_a_number_that_divides_full_windows_is_no_weight_in_a_short_one(tmp_path):
    def change(fields):
        fields["losses"][0] |= {"scale": 0.5, "times": 0.5}

    full, short = [[300, 300], [300, 300]], [[300], [300]]
    job = HandJob([full, full, short], combined(0.5))
    assert diagnose(with_losses(job, tmp_path, change)).outcome == "wrong"


def test_a_weight_that_the_script_learns_accuses_nobody(tmp_path):
    assert halved(tmp_path, times=None).outcome == "right"
