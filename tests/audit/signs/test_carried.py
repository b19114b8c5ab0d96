"""The update of the step before in this one: a gradient that was not zeroed, or momentum by hand."""

from __future__ import annotations

import pytest

from audit.traces import HandJob
from failuremap.audit import diagnose

FROM_BEFORE = "each update holds 0.9 times the one before, as momentum that the script adds itself"


def adding(factor, coefficient=0.5):
    """Two ranks whose update is a combination of their gradients and, after the first step, of the update before."""

    def update(window):
        now = window.combined(coefficient)
        times = factor(window.number) if callable(factor) else factor
        return now if window.before is None else now + times * window.before.updates_RL

    return HandJob([[300], [300]], update, steps=5)


def test_momentum_that_the_script_adds_itself_is_no_fault(tmp_path):
    verdict = diagnose(adding(0.9).write(tmp_path))

    assert (verdict.outcome, FROM_BEFORE in verdict.notes) == ("right", True)


@pytest.mark.parametrize(
    ("factor", "coefficient"),
    [(1.0, 0.5), (2.0, 1.0), (1.0, 1.0), (0.3, 0.15)],
    ids=["averaged", "summed", "added behind a sum", "clipped by hand"],
)
def test_what_goes_through_the_reduction_again_was_not_zeroed(factor, coefficient, tmp_path):
    verdict = diagnose(adding(factor, coefficient).write(tmp_path))

    assert verdict.sentence.startswith("The previous step's gradient is in the update again")
    assert verdict.findings[0].candidates[0].slug == "stale-gradient-leaks"


def test_momentum_hides_no_other_fault(tmp_path):
    verdict = diagnose(adding(0.9, 1.0).write(tmp_path))

    assert (verdict.outcome, verdict.sentence) == ("wrong", "The update is 2 times the mean over all tokens.")


def test_factors_that_change_are_open(tmp_path):
    verdict = diagnose(adding(lambda number: 0.5 + 0.1 * number).write(tmp_path))

    (reason,) = verdict.reasons
    assert verdict.outcome == "cannot tell"
    assert reason == (
        "the updates of 4 of 5 steps hold 0.6 to 0.9 times the one before: momentum that the script adds itself, or "
        "gradients that it does not always zero"
    )
