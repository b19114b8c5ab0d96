"""What several steps show together: ranks that left, counts of other units, terms that go by the window."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import combined, edited
from audit.traces import HandJob, loss, of_kind
from failuremap.audit import diagnose

FIVE = [np.full((3, 1), 300)] * 5


def slugs(verdict):
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})


# ---- ranks that left for good


def leaving(folder, coefficient, *, after=3, back=False, open_pass=False):
    """Three ranks; the last one leaves after some steps, and the others go on with this coefficient."""

    def gradients(drawn, number):
        drawn[2] = 0 if number >= after else drawn[2]
        return drawn

    def update(window):
        return window.combined(coefficient if window.number >= after else 1 / 3)

    def edit(rank, records):
        if rank != 2:
            return records
        gone = of_kind(records, "step")[after : -1 if back else None]
        passes = of_kind(records, "backward")[after : -1 if back else None]
        away = {*gone, *(passes[1:] if open_pass else passes)}
        return [record for place, record in enumerate(records) if place not in away]

    return edited(HandJob(FIVE, update, steps=5, gradients=gradients), folder, edit)


def test_a_divisor_that_counts_a_rank_that_left_is_named(tmp_path):
    verdict = diagnose(leaving(tmp_path, 1 / 3))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", ["departed-rank-counted"])
    assert verdict.sentence == (
        "Rank 2 takes no part any more and is still counted: the update is 0.667 times the mean over all tokens of the "
        "ranks that are left. It may be meant so, for a token to weigh the same at every step."
    )
    assert verdict.findings[0].steps == [4, 5]


def test_negative_control_a_divisor_of_the_ranks_that_are_left_is_right(tmp_path):
    assert diagnose(leaving(tmp_path, 1 / 2)).outcome == "right"


def test_negative_control_where_a_sum_is_promised_no_rank_is_counted(tmp_path):
    assert "departed-rank-counted" not in slugs(diagnose(leaving(tmp_path, 1 / 3), promise="sum"))


@pytest.mark.parametrize(
    ("coefficient", "how"), [(0.2, {}), (1 / 3, {"back": True}), (1 / 3, {"open_pass": True})],
    ids=["another factor", "the rank comes back", "its last pass was left open"],
)  # fmt: skip
def test_negative_control_steps_without_a_rank_that_show_something_else_are_not_named(coefficient, how, tmp_path):
    assert "departed-rank-counted" not in slugs(diagnose(leaving(tmp_path, coefficient, **how)))


def test_negative_control_a_rank_that_left_no_trace_has_not_departed(tmp_path):
    HandJob(FIVE, steps=5).write(tmp_path)
    (tmp_path / "rank00002-1.trace").unlink()

    assert slugs(diagnose(tmp_path)) == []


# ---- the count of other units

UNLIKE = [np.array(table) for table in (
    [[300, 200], [100, 250]], [[150, 400], [200, 100]], [[500, 100], [300, 220]], [[120, 330], [260, 480]],
    [[200, 210], [310, 130]],
)]  # fmt: skip


def divided_by(count):
    """Losses that are sums, divided by a count: given all windows' counts and the number of the step."""

    def update(window):
        return window.combined(window.counts_RM / count(window.number))

    return HandJob(UNLIKE, update, steps=len(UNLIKE))


OTHER = {
    "the first micro-batch, times the micro-batches": lambda step: 2 * UNLIKE[step][:, 0].sum(),
    "the last micro-batch, times the micro-batches": lambda step: 2 * UNLIKE[step][:, 1].sum(),
    "the window before": lambda step: UNLIKE[max(step - 1, 0)].sum(),
    "the window after": lambda step: UNLIKE[min(step + 1, 4)].sum(),
    "rank 0, times the ranks": lambda step: 2 * UNLIKE[step][0].sum(),
    "rank 1": lambda step: UNLIKE[step][1].sum(),
}


@pytest.mark.parametrize("whose", OTHER)
def test_a_divisor_that_is_the_count_of_other_units_is_named(whose, tmp_path):
    verdict = diagnose(divided_by(OTHER[whose]).write(tmp_path))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", ["denominator-window-mismatch"])
    assert f"divided by the tokens of {whose}, not by those of the window: it is " in verdict.sentence


def test_negative_control_the_count_of_the_window_itself_is_right(tmp_path):
    assert diagnose(divided_by(lambda step: UNLIKE[step].sum()).write(tmp_path)).outcome == "right"


@pytest.mark.parametrize("count", [lambda step: 700 + 90 * step, lambda _: 900], ids=["of nothing", "fixed"])
def test_negative_control_other_divisors_cannot_be_told(count, tmp_path):
    verdict = diagnose(divided_by(count).write(tmp_path))

    assert (verdict.outcome, slugs(verdict)) == ("cannot tell", [])


def test_negative_control_a_rank_that_always_has_the_same_part_of_the_units_names_nothing(tmp_path):
    tables = [np.array([[100], [300]]) * size for size in (1, 2, 3, 4, 5)]
    twice = HandJob(tables, lambda window: window.combined(window.counts_RM / window.counts_RM[1].sum()), steps=5)

    assert slugs(diagnose(twice.write(tmp_path))) == []


def test_negative_control_two_steps_are_too_few(tmp_path):
    job = divided_by(OTHER["the first micro-batch, times the micro-batches"])
    job.steps = 2

    assert diagnose(job.write(tmp_path)).outcome == "cannot tell"


# ---- a second term


def with_second_term(folder, weight, sizes=(3, 2, 3, 2)):
    """A right job whose backward passes have a second loss; its scale is given by the length of the window."""
    job = HandJob(
        [np.full((2, size), 300) for size in sizes],
        lambda window: window.combined(1 / window.counts_RM.size),
        steps=len(sizes),
    )
    lengths = [size for size in sizes for _ in range(size)]

    def edit(_, records):
        for number, place in enumerate(of_kind(records, "backward")):
            fields = records[place][0]
            second = loss(
                4, weight(lengths[number]), function="mse_loss", site="train.py:52", fingerprint=-number - 1.5
            )
            del second["classes"]
            fields["losses"].append(second)
        return records

    return edited(job, folder, edit)


def test_a_second_term_that_goes_by_the_window_is_named(tmp_path):
    verdict = diagnose(with_second_term(tmp_path, lambda length: 0.1 * length))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", ["aux-term-other-denominator"])
    assert verdict.sentence == (
        "The weight of mse_loss(mean) at train.py:52 goes by the micro-batches of the window (0.3 with 3 of them), and "
        "that of the main term does not: it lacks a division."
    )


@pytest.mark.parametrize(
    ("weight", "sizes"),
    [
        (lambda _: 0.1, (3, 2, 3, 2)),
        (lambda length: 0.1 * length, (3, 3, 3, 3)),
        (lambda length: 0.1 * length**2, (3, 2, 3, 2)),
        (lambda length: 0.1 * length, (3, 2)),
    ],
    ids=["the same at each step", "windows of one length", "by something else", "two steps"],
)
def test_negative_control_any_other_weight_of_a_second_term_is_the_scripts_own(weight, sizes, tmp_path):
    assert diagnose(with_second_term(tmp_path, weight, sizes)).outcome == "right"


def test_the_coefficients_of_these_jobs_are_right(tmp_path):
    """Negative control of the fixtures: without a change each of them is a right job."""
    assert diagnose(HandJob(FIVE, combined(1 / 3), steps=5).write(tmp_path)).outcome == "right"
