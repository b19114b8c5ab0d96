"""The labelled lines that terminal and HTML share."""

from __future__ import annotations

from audit.report.samples import (
    COUNTS_IGNORED,
    NOT_MEASURED,
    ODD_NUMBERS,
    PART_OF_PARAMETERS,
    SCRIPT_FAILED,
    SUM_PROMISE,
    TWO_CANDIDATES,
    evidence,
    finding,
    grid,
)
from failuremap.audit.model import Evidence, Verdict
from failuremap.audit.report.outline import about, context, leads, notes, rests_on


def lines(verdict: Verdict) -> dict[str, str]:
    """Return what is said of the first finding, by label."""
    return dict(about(verdict.findings[0], verdict))


def test_the_context_says_steps_ranks_parameters_and_script():
    assert context(COUNTS_IGNORED) == [
        "steps 1-6",
        "2 ranks x 1 micro-batch",
        "31 of 31 parameters",
        "train.py --lr 3e-4 --layers 4",
    ]


def test_steps_that_were_not_all_judged_are_counted():
    seen = evidence(2, 1).model_copy(update={"last_step": 100})

    assert context(COUNTS_IGNORED.model_copy(update={"evidence": seen}))[0] == "6 of steps 1-100"


def test_a_finding_on_all_parameters_and_steps_does_not_say_where():
    assert "where" not in lines(COUNTS_IGNORED)


def test_a_finding_on_part_of_the_parameters_names_three_and_counts_them():
    expected = "steps 3-6 · 4 of 31 parameters: head.weight, head.bias, norm.weight and 1 more · "

    assert lines(PART_OF_PARAMETERS)["where"] == expected + "loss term cross_entropy(mean) at train.py:41"


def test_a_finding_of_steps_that_were_read_in_part_says_how_many_were_read():
    (first,) = PART_OF_PARAMETERS.findings
    in_part = PART_OF_PARAMETERS.model_copy(update={"findings": [first.model_copy(update={"parameters_read": 5})]})

    assert "4 of the 5 parameters that were read (of 31): head.weight," in lines(in_part)["where"]


def test_several_candidates_are_all_named_and_what_separates_them():
    said = lines(TWO_CANDIDATES)

    assert said["mechanism"] == (
        "the window divides twice (failuremap show divided-by-window-twice)  or  "
        "the world divides twice (failuremap show divided-by-world-twice)"
    )
    assert said["separate"].startswith("a window of another length")
    assert said["separate"].endswith("; or a run on 3 ranks: here the window and the world are both 4")


def test_one_candidate_has_nothing_to_be_separated_from():
    assert "separate" not in lines(COUNTS_IGNORED)


def test_a_wrong_rule_without_a_name_says_that_it_has_none():
    unnamed = finding("wrong", candidates=[])

    assert (
        dict(about(unnamed, COUNTS_IGNORED))["mechanism"] == "none of the catalogue fits: a wrong rule without a name"
    )


def test_the_effect_says_what_is_not_as_it_should_be():
    assert lines(COUNTS_IGNORED)["effect"] == "heaviest to lightest 2.51 : 1 · update off by 0.42 of the right one"
    assert lines(TWO_CANDIDATES)["effect"] == "total weight 0.25, a mean has 1 · update off by 0.75 of the right one"
    assert lines(SUM_PROMISE)["effect"] == "total weight 216.00 · update off by 0.50 of the right one"


def test_an_effect_that_is_no_number_reads_as_a_sentence():
    assert lines(ODD_NUMBERS)["effect"] == (
        "the lightest weighs nothing · total weight not a number, a mean has 1 · the update's error is not a number"
    )


def test_the_evidence_gives_coefficients_residual_and_losses():
    assert rests_on(COUNTS_IGNORED.cells, COUNTS_IGNORED.evidence) == (
        "2 coefficients, all 0.5000 (relative error 2e-8), residual 3e-7; "
        "loss weights from cross_entropy(mean) at train.py:41, 12 of 12 losses seen"
    )


def test_different_coefficients_are_listed_and_many_are_given_by_their_ends():
    several = [cell.model_copy(update={"coefficient": 0.01 * (index + 1)}) for index, cell in enumerate(grid(3, 4))]

    assert rests_on(several[:3], evidence(1, 1)).startswith("coefficients 0.01 0.02 0.03 (relative error 2e-8)")
    assert rests_on(several, evidence(1, 1)).startswith("12 coefficients from 0.01 to 0.1200 (relative error 2e-8)")


def test_losses_that_were_not_seen_are_said_to_be_not_seen():
    assert rests_on([], evidence(2, 1, losses_seen=0)) == "residual 3e-7; 0 of 12 losses seen"


def test_a_sentence_leads_where_it_opens_with_the_outcome():
    said = NOT_MEASURED.model_copy(update={"sentence": "Not measured: what was seen is not enough for a verdict."})

    assert (leads(said), leads(NOT_MEASURED)) == (True, False)


def test_a_script_that_failed_before_anything_was_measured_has_no_until_then():
    failed = SCRIPT_FAILED.model_copy(update={"notes": ["Until then: Nothing was measured.", "other"]})
    later = failed.model_copy(update={"evidence": Evidence(step_count=2)})

    assert notes(failed) == ["other"]
    assert notes(later) == failed.notes
