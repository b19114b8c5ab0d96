"""Parameters that one process does not explain, by hand: what is the measure, and how small a fault is seen."""

from __future__ import annotations

import numpy as np
import pytest

from audit.compared.test_comparison import beside, changed, of_sums
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


def rounded(window):
    """What another process computes in bfloat16: each rank's gradient is off as a whole, and number by number."""
    noise = np.random.default_rng(3).normal(size=window.gradients_RML.shape)
    found = of_sums(window) * (1 + 0.006 * noise)
    found[0] *= 1.012
    return found


@pytest.mark.parametrize(("counts", "outcome"), [((412, 412), "right"), ((412, 404), "wrong"), ((412, 100), "wrong")])
def test_rounding_in_coefficients_accuses_nobody_and_excuses_nobody(counts, outcome, tmp_path):
    job = HandJob(counts=tuple((count,) for count in counts), dtype="bfloat16")
    dtypes = dict.fromkeys(job.shapes, "bfloat16 x 1.1")

    assert beside(job, tmp_path, rounded, dtypes=dtypes).outcome == outcome
