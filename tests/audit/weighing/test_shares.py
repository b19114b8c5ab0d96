"""The weights of one step: laws of shares, clipping undone, each term for itself, and what was not seen."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import (
    EVEN,
    UNEVEN,
    combined,
    judged_in,
    kinds,
    last,
    share_of_all,
    shares,
    silent,
    the_fault,
    with_clips,
    with_losses,
    zeroed,
)
from audit.traces import HandJob, loss
from failuremap.audit import diagnose
from failuremap.audit.sentences.loss_words import factor_apart, factor_inside, rows_added_up, temperature
from failuremap.audit.weighing.shares import even_enough
from failuremap.catalogue.signs import Sign

# ---- laws


def test_means_of_unlike_counts_are_as_uneven_as_the_counts(tmp_path):
    fault = the_fault(last(HandJob(UNEVEN), tmp_path))

    assert (fault.kind, fault.ratio, fault.total) == ("weights", pytest.approx(4), pytest.approx(1))
    assert [round(cell.share, 4) for cell in fault.cells] == [0.625, 0.8333, 2.5, 1.25]
    assert fault.term == "cross_entropy(mean) at train.py:41"
    assert "mean" in fault.followed


def test_equal_weights_are_no_fault(tmp_path):
    judged = last(HandJob(UNEVEN, combined(1), share_of_all), tmp_path)

    assert (silent(judged), shares(judged), judged.notes) == (True, [1, 1, 1, 1], [])


def test_the_order_of_micro_batches_does_not_matter(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir(), other.mkdir()

    first = the_fault(last(HandJob([[400, 100]]), one))
    second = the_fault(last(HandJob([[100, 400]]), other))

    assert first.ratio == pytest.approx(second.ratio)
    assert shares_of(first) == pytest.approx(shares_of(second)[::-1])


def shares_of(fault):
    return [cell.share for cell in fault.cells]


@pytest.mark.parametrize("scale", [0.25, 1.0, 40.0])
def test_a_factor_on_the_loss_changes_no_ratio(scale, tmp_path):
    fault = the_fault(last(HandJob(UNEVEN, scale=lambda counts: np.full_like(counts, scale)), tmp_path))

    assert (fault.ratio, fault.total) == (pytest.approx(4), pytest.approx(scale))


def test_a_contribution_split_in_two_changes_no_weight(tmp_path):
    whole, split = tmp_path / "whole", tmp_path / "split"
    whole.mkdir(), split.mkdir()

    first = last(HandJob([[400], [100]], combined(1), share_of_all), whole)
    second = last(HandJob([[150, 250], [50, 50]], combined(1), share_of_all), split)

    assert (silent(first), silent(second)) == (True, True)
    assert (shares(first), shares(second)) == ([1, 1], [1, 1, 1, 1])


def test_a_contribution_of_no_unit_that_weighs_nothing_changes_nothing(tmp_path):
    job = HandJob([[300], [100], [0]], combined([[0.75], [0.25], [0]]), gradients=zeroed(2))

    judged = last(job, tmp_path)

    assert silent(judged)
    assert [cell.share for cell in judged.cells[:2]] == [pytest.approx(1)] * 2
    assert judged.cells[2].share is None


def test_a_contribution_of_no_unit_that_takes_a_share_is_a_fault(tmp_path):
    fault = the_fault(last(HandJob([[300], [100], [0]], combined(1 / 3), gradients=zeroed(2)), tmp_path))

    assert Sign.EMPTY_CONTRIBUTION in fault.signs


def test_the_effect_is_nothing_where_weights_are_right_up_to_a_total(tmp_path):
    fault = the_fault(last(HandJob([[300]] * 3, combined(1)), tmp_path))

    assert (fault.kind, fault.effect) == ("total", pytest.approx(2))


def test_uneven_weights_have_an_effect_between_nothing_and_all(tmp_path):
    fault = the_fault(last(HandJob(UNEVEN), tmp_path))

    assert 0.1 < fault.effect < 1


# ---- the total


@pytest.mark.parametrize(("counts", "coefficient", "sign"), [
    ([[300]] * 3, 1, Sign.COEFFICIENTS_SUM),
    ([[300]] * 3, 1 / 3, Sign.COEFFICIENTS_MEAN),
    ([[300]] * 3, 1 / 9, Sign.COEFFICIENTS_MEAN_TWICE),
])  # fmt: skip
def test_coefficients_that_have_a_name_are_a_sign(counts, coefficient, sign, tmp_path):
    scale = 3 if sign is Sign.COEFFICIENTS_MEAN else 1
    job = HandJob(counts, combined(coefficient), lambda table: np.full_like(table, scale))

    signs = the_fault(last(job, tmp_path)).signs

    assert signs & {Sign.COEFFICIENTS_SUM, Sign.COEFFICIENTS_MEAN, Sign.COEFFICIENTS_MEAN_TWICE} == {sign}


def test_coefficients_that_divide_summed_losses_have_the_sign_of_what_is_left(tmp_path):
    signs = the_fault(last(HandJob([[300], [100]], combined(1 / 800), lambda table: table), tmp_path)).signs

    assert Sign.COEFFICIENTS_MEAN in signs


def test_negative_control_coefficients_of_scaled_sums_have_none(tmp_path):
    job = HandJob([[300], [100]], combined(1 / 800), lambda table: table / 2, steps=1)
    judged = last(job, tmp_path)

    assert not any(sign.startswith("coefficients-") for fault in judged.faults for sign in fault.signs)


def test_a_factor_without_a_name_is_a_note_and_shares_are_against_the_average(tmp_path):
    judged = last(HandJob(EVEN, combined(0.37 / 4)), tmp_path)

    assert (silent(judged), judged.factor, shares(judged)) == (True, pytest.approx(0.37), [1, 1, 1, 1])
    assert len(judged.notes) == 1


def in_rows(tmp_path, length: int, **more):
    """Losses that together weigh twice the mean over their units, which stand in rows of some length."""
    job = HandJob(EVEN, combined(1), steps=1)
    told = {"reduction": "sum", "scale": 1 / 600, "rows": 300 / length, **more}
    return judged_in(with_losses(job, tmp_path, lambda fields: fields["losses"][0].update(told)))[-1]


def test_a_total_that_is_the_length_of_a_row_may_be_a_row_added_up(tmp_path):
    judged = in_rows(tmp_path, 2)

    assert (judged.faults, judged.unexplained) == ([], [rows_added_up(2, "token")])
    assert judged.unexplained[0] == (
        "together all tokens weigh 2 of the mean, and so many numbers of the loss stand in a row: a loss that adds up "
        "each row is right, a factor too many in the update is not, and both look alike; "
        "audit on another number of ranks"
    )


@pytest.mark.parametrize(
    ("function", "times", "said"),
    [("kl_div", 4, True), ("log_softmax", 4, True), ("nll_loss", 4, False), ("log_softmax", 1, False)],
)
def test_a_total_that_is_the_square_of_a_temperature_may_be_that_of_a_distillation(function, times, said, tmp_path):
    job = HandJob(EVEN, combined(1), steps=1)
    told = {"function": function, "reduction": "sum", "scale": 1 / 300, "times": times}
    judged = judged_in(with_losses(job, tmp_path, lambda fields: fields["losses"][0].update(told)))[-1]

    assert (judged.faults == [], judged.unexplained == [temperature(4, "token")]) == (said, said)
    assert "the square of a temperature of 2, by which distillation multiplies its loss" in temperature(4, "token")


def test_a_total_of_a_loss_whose_inside_is_hidden_may_be_a_factor_of_that(tmp_path):
    judged = in_rows(tmp_path, 3, hidden_in="FastLoss")

    assert (judged.faults, judged.unexplained) == ([], [factor_inside(2, "FastLoss", "token")])
    assert judged.unexplained[0] == (
        "together all tokens weigh 2 of the mean by the gradient at the logits, which holds any factor inside FastLoss "
        "as well, such as a temperature: mark its result with failuremap.unit_losses(losses)"
    )


def test_units_with_numbers_of_the_scripts_own_are_said_to_weigh_more_apart_from_these(tmp_path):
    job = HandJob([[300], [100]], combined(0.5), steps=1)
    told = {"function": "loss_per_unit"}
    judged = judged_in(with_losses(job, tmp_path, lambda fields: fields["losses"][0].update(told)))[-1]

    assert (judged.apart, the_fault(judged).sentence) == (
        True,
        "Apart from the script's own number for each, a token on rank 1 weighs 3.00 times a token on rank 0.",
    )


@pytest.mark.parametrize("scale", [1 / 600, 1 / 570, 1 / 150], ids=["ranks", "no-name", "elsewhere"])
def test_a_total_above_the_mean_may_be_made_up_for_in_numbers_of_the_scripts_own(scale, tmp_path):
    judged = in_rows(tmp_path, 3, function="loss_per_unit", scale=scale)

    assert (judged.faults, judged.unexplained) == ([], [factor_apart("token", "mean")])
    assert judged.unexplained[0] == (
        "apart from the script's own number for each token, such as an advantage, the update is not the mean over all "
        "tokens, and a factor in these numbers would make up for it: mark failuremap.unit_losses(losses) where there "
        "is none, or audit with --promise sum if that is meant"
    )


@pytest.mark.parametrize(
    ("length", "more"),
    [(3, {}), (2, {"reduction": "mean", "scale": 0.5}), (3, {"hidden_in": "Softmax"})],
    ids=["rows-of-three", "means-of-torch", "softmax"],
)
def test_a_total_that_no_row_explains_is_a_fault(length, more, tmp_path):
    assert the_fault(in_rows(tmp_path, length, **more)).total == pytest.approx(2)


def test_a_sum_is_no_fault_where_it_is_promised(tmp_path):
    counts = [[300], [100]]
    job = HandJob(counts, combined(1), lambda table: table)

    assert silent(last(job, tmp_path, promise="sum"))


def test_a_mean_is_a_fault_where_a_sum_is_promised(tmp_path):
    job = HandJob([[300], [100]], combined(0.5), lambda table: table)

    fault = the_fault(last(job, tmp_path, promise="sum"))

    assert (fault.kind, fault.total) == ("total", pytest.approx(0.5))


def test_the_one_contribution_that_is_a_sum_is_a_plain_sum_and_no_fault(tmp_path):
    judged = last(HandJob([[300]], combined(1), lambda table: table), tmp_path)

    assert (judged.plain_sum, judged.faults) == (True, [])
    assert judged.notes == ["The update is the sum over all tokens, not the mean (--promise sum, if a sum is meant)."]


def test_a_window_shorter_than_the_usual_one_is_a_sign(tmp_path):
    job = HandJob([[300, 300]], combined(1), lambda table: np.full_like(table, 1 / 4))

    assert Sign.SHORT_WINDOW in the_fault(last(job, tmp_path, full_window=4)).signs


FIVE_OF_THREE = [[300] * 5] * 2


@pytest.mark.parametrize(("counts", "divisor", "long"), [
    (FIVE_OF_THREE, 3, True),
    ([[400, 100, 200, 300, 500]] * 2, 3, True),
    (FIVE_OF_THREE, 4, False),
    ([[300] * 6] * 2, 3, False),
    ([[300] * 2] * 2, 3, False),
], ids=str)  # fmt: skip
def test_a_longer_window_with_the_divisor_of_a_full_one_is_a_sign(counts, divisor, long, tmp_path):
    job = HandJob(counts, combined(len(counts[0]) / divisor), share_of_all)

    judged = last(job, tmp_path, full_window=3)

    assert (Sign.LONG_WINDOW in the_fault(judged).signs if judged.faults else False) == long


def test_a_longer_window_that_is_right_is_no_fault(tmp_path):
    assert silent(last(HandJob(FIVE_OF_THREE), tmp_path, full_window=3))


def test_a_full_window_is_not_short(tmp_path):
    job = HandJob([[300, 300]], combined(1), lambda table: np.full_like(table, 1 / 4))

    assert Sign.SHORT_WINDOW not in the_fault(last(job, tmp_path, full_window=2)).signs


# ---- clipping


def test_a_common_clip_is_taken_out_of_the_weights(tmp_path):
    folder = with_clips(HandJob(UNEVEN, combined(0.25), share_of_all), tmp_path, [4.0, 4.0])

    judged = judged_in(folder)[-1]

    assert (silent(judged), shares(judged), judged.notes) == (True, [1, 1, 1, 1], [])


def test_a_common_clip_hides_no_uneven_weights(tmp_path):
    folder = with_clips(HandJob(UNEVEN, combined(0.25 / 4)), tmp_path, [4.0, 4.0])

    assert the_fault(judged_in(folder)[-1]).ratio == pytest.approx(4)


def test_a_norm_below_the_limit_clips_nothing(tmp_path):
    folder = with_clips(HandJob(UNEVEN, combined(1), share_of_all), tmp_path, [0.5, 0.2])

    assert silent(judged_in(folder)[-1])


def test_own_clips_of_each_rank_that_reach_the_update_are_a_fault(tmp_path):
    folder = with_clips(HandJob([[300], [300]], combined([[0.5 / 4], [0.5 / 2]])), tmp_path, [4.0, 2.0])

    fault = the_fault(judged_in(folder)[-1])

    assert (fault.kind, Sign.CLIPPED_BEFORE_REDUCTION in fault.signs) == ("clip", True)


def test_own_clips_that_do_not_reach_the_update_are_a_note(tmp_path):
    folder = with_clips(HandJob([[300], [300]], combined(0.5)), tmp_path, [4.0, 2.0])

    judged = judged_in(folder)[-1]

    assert judged.faults == []
    assert "the ranks, or the micro-batches, were clipped by different norms" in judged.notes


# ---- several terms, and losses that were not seen


def add_term(share: float, count: float):
    def change(fields):
        fields["losses"].append(loss(count, share, site="train.py:50", function="mse_loss"))

    return change


def test_a_second_term_of_another_weight_is_no_fault(tmp_path):
    folder = with_losses(HandJob([[300], [300]], combined(0.5)), tmp_path, add_term(0.01, 300))

    judged = judged_in(folder)[-1]

    assert (judged.faults, judged.doubts, shares(judged)) == ([], [], [1, 1])
    assert judged.notes[0].startswith("mse_loss(mean) at train.py:50: every unit weighs the same, with a factor")


def test_a_second_term_is_judged_for_itself(tmp_path):
    def change(fields):
        count = fields["losses"][0]["count"]
        fields["losses"] = [loss(300, 1.0), loss(count, 0.01, site="train.py:50", function="mse_loss")]

    folder = with_losses(HandJob([[400], [100]], combined(0.5)), tmp_path, change)

    fault = the_fault(judged_in(folder)[-1])

    assert (fault.term, fault.ratio) == ("mse_loss(mean) at train.py:50", pytest.approx(4))


def test_a_mean_without_a_weight_is_judged_beside_other_terms(tmp_path):
    folder = with_losses(HandJob([[300], [300]], combined(1.0)), tmp_path, add_term(0.3, 300))

    fault = the_fault(judged_in(folder)[-1])

    assert (fault.kind, fault.total, "sum" in fault.followed) == ("total", pytest.approx(2), True)
    assert fault.sentence == "The update is 2 times the mean over all tokens."


def test_negative_control_a_term_with_a_weight_may_have_that_total(tmp_path):
    def change(fields):
        fields["losses"] = [loss(300, 2.0), loss(300, 0.3, site="train.py:50", function="mse_loss")]

    verdict = diagnose(with_losses(HandJob([[300], [300]], combined(0.5)), tmp_path, change))

    assert (verdict.outcome, verdict.sentence) == (
        "right",
        "Every token weighs the same in each of the 2 terms of the loss; the script weighs the terms itself.",
    )


def test_negative_control_a_term_of_no_unit_anywhere_is_no_fault(tmp_path):
    def change(fields):
        empty = {"reduction": "none", "nonzero": 0, "elements": 16}
        fields["losses"].append(loss(0, 0.0, site="train.py:50", function="mse_loss", **empty))

    assert silent(judged_in(with_losses(HandJob([[300], [300]], combined(0.5)), tmp_path, change))[-1])


def test_a_pass_without_a_gradient_hides_no_term(tmp_path):
    job = HandJob([[300], [300]], combined(1.0), share_of_all, gradients=zeroed(1))

    def dummy(fields):
        if fields["losses"][0]["fingerprint"] > 2000:
            fields.update(losses=[], unseen=["Addmm"])

    assert silent(judged_in(with_losses(job, tmp_path, dummy))[-1])


def test_without_a_loss_the_coefficients_alone_are_shown(tmp_path):
    judged = judged_in(with_losses(HandJob(EVEN), tmp_path, lambda fields: fields.update(losses=[])))[-1]

    assert [round(cell.coefficient, 6) for cell in judged.cells] == [0.25] * 4
    assert [cell.share for cell in judged.cells] == [None] * 4
    assert len(judged.unmeasured) == 1


def test_a_part_that_was_not_seen_leaves_uneven_weights_a_fault(tmp_path):
    folder = with_losses(HandJob(UNEVEN), tmp_path, lambda fields: fields.update(unseen=["PowBackward0"]))

    judged = judged_in(folder)[-1]

    assert (kinds(judged), len(judged.unmeasured)) == (["weights"], 1)


def test_a_part_that_was_not_seen_leaves_the_total_open(tmp_path):
    job = HandJob([[300]] * 3, combined(1))

    judged = judged_in(with_losses(job, tmp_path, lambda fields: fields.update(unseen=["PowBackward0"])))[-1]

    assert (kinds(judged), len(judged.unmeasured)) == ([], 1)


def test_units_that_the_script_weighs_itself_are_open_and_no_fault(tmp_path):
    def own(fields):
        fields["losses"][0].update(reduction="none", nonzero=300, smallest=0.1, largest=0.9)

    judged = judged_in(with_losses(HandJob([[300], [300]], combined(0.5)), tmp_path, own))[-1]

    (open_question,) = judged.doubts + judged.unexplained
    assert (judged.faults, [cell.share for cell in judged.cells]) == ([], [None, None])
    assert open_question == (
        "cross_entropy(none) at train.py:41: tokens weigh differently inside one micro-batch, by the script's own "
        "weights, so shares cannot be compared; to leave these weights aside, mark the losses behind them: "
        "failuremap.unit_losses(weighted)"
    )


# ---- how sure


@pytest.mark.parametrize(
    ("error", "steps", "enough"),
    [(0.001, 1, True), (0.003, 1, False), (0.003, 4, True), (0.02, 4, False), (0, 0, True)],
)
def test_errors_are_small_enough_over_enough_steps(error, steps, enough):
    assert even_enough(error, steps) is enough


@pytest.mark.parametrize("factor", [2.0, 0.3, -1.0])
@pytest.mark.parametrize("counts", [[[300], [300]], [[300], [100]]], ids=str)
def test_proportional_gradients_cannot_be_told_apart(counts, factor, tmp_path):
    def proportional(gradients, _):
        gradients[1] = factor * gradients[0]
        return gradients

    verdict = diagnose(HandJob(counts, gradients=proportional).write(tmp_path))

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    assert "too much alike to tell their coefficients apart" in verdict.reasons[0]


@pytest.mark.parametrize("difference", [1e-6, 1e-7])
def test_nearly_proportional_gradients_are_never_called_right(difference, tmp_path):
    def nearly(gradients, _):
        gradients[1] = 2 * gradients[0] + difference * gradients[1]
        return gradients

    assert diagnose(HandJob([[300], [100]], gradients=nearly).write(tmp_path)).outcome != "right"
