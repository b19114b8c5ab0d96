"""Which steps are held against one another where a factor goes from step to step."""

from __future__ import annotations

import pytest

from audit.judging import edited
from audit.traces import HandJob, of_kind
from failuremap.audit import diagnose
from failuremap.audit.faults import Judged, Story
from failuremap.audit.model import Cell
from failuremap.audit.signs.factors import judge_factors, of_one_model


def steps(*names: str) -> list[Judged]:
    return [Judged(number, names=frozenset(held.split())) for number, held in enumerate(names, 1)]


def test_steps_on_parameters_that_have_nothing_in_common_are_apart():
    generator, critic, again, last = steps("g.weight g.bias", "d.weight", "g.weight", "d.weight d.bias")

    assert of_one_model([generator, critic, again, last]) == [[generator, again], [critic, last]]


def test_steps_that_a_later_one_joins_are_one_models():
    head, encoder, both = steps("head", "encoder", "head encoder")

    assert of_one_model([head, encoder, both]) == [[head, encoder, both]]


# ---- a factor that a known fault leaves, too


def scaled(factors):
    """Two ranks whose averaged gradients the script multiplies by another factor at each step."""
    return HandJob([[300], [300]], lambda window: window.combined(factors[window.number] / 2), steps=len(factors))


def test_a_ramp_passes_the_factors_of_known_faults_and_is_open(tmp_path):
    verdict = diagnose(scaled([0.25, 0.5, 0.75, 1, 1, 1]).write(tmp_path))

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    assert verdict.reasons[0].startswith("all tokens of a step weigh the same, but together 0.75 to 1 of the mean")


@pytest.mark.parametrize(
    ("norms", "outcome"), [([1.0] * 5, "right"), ([1.0, 1.5, 0.8, 1.2, 1.0], "wrong")], ids=["one", "others"]
)
def test_an_update_that_the_script_gives_one_norm_is_right_though_it_meets_a_known_factor(norms, outcome, tmp_path):
    def edit(_, records):
        for norm, place in zip(norms, of_kind(records, "step"), strict=True):
            records[place][0]["norm"] = norm
        return records

    verdict = diagnose(edited(scaled([0.3, 2, 0.8, 0.9, 1.4]), tmp_path, edit))

    said = "the script gives the update a norm of 1 at every step (4 steps)" in verdict.notes
    assert (verdict.outcome, said) == (outcome, outcome == "right")


@pytest.mark.parametrize("factors", [[2, 2, 1, 1, 1, 1], [2, 4, 0.5, 0.75, 0.75, 0.75]], ids=["two", "never 1"])
def test_negative_control_few_factors_are_no_ramp(factors, tmp_path):
    assert diagnose(scaled(factors).write(tmp_path)).outcome == "wrong"


def test_a_step_whose_loss_was_seen_in_part_says_nothing_of_a_factor():
    parts = [Judged(n, main_term="value", unit_count=8.0, names=frozenset({"w"})) for n in (1, 2)]
    for part, known in zip(parts, (0.5, None), strict=True):
        part.cells, part.factor = [Cell(rank=0, micro_batch=0), Cell(rank=1, micro_batch=0)], known
    whole = Story([], [], 2, parts, "example", "mean")
    assert len(judge_factors(whole)[0]) == 1

    parts[1].unmeasured.append("a term was not seen")
    assert judge_factors(whole) == ([], [])
