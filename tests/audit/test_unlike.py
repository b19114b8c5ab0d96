"""Parameters that one process does not explain, by hand: what is the measure, and how small a fault is seen."""

from __future__ import annotations

import pytest

from audit.test_comparison import beside, changed, of_sums
from audit.traces import HandJob


def test_what_is_right_is_the_measure_even_where_most_is_not(tmp_path):
    def gradients(window):
        found = 0.5 * of_sums(window)
        found[:, :, window.columns("head.weight")] *= 2
        return found

    verdict = beside(HandJob(), tmp_path, gradients)

    assert verdict.sentence == (
        "3 parameters get 2.00 times the update of a single process: embed.weight, layer.bias, layer.weight."
    )
    assert len(verdict.findings) == 1


@pytest.mark.parametrize("times", [1.0001, 1.00003])
def test_the_smallest_fault_that_the_tolerance_claims_to_see_is_seen(times, tmp_path):
    verdict = beside(HandJob(), tmp_path, changed("layer.weight", 1 / times))

    assert verdict.sentence == f"layer.weight: the update is {times} times that of a single process."


def test_negative_control_what_is_below_it_is_not(tmp_path):
    assert beside(HandJob(), tmp_path, changed("layer.weight", 1 + 1e-6)).outcome == "right"
