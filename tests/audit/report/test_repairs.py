"""What to do about a finding: a repair for each mechanism that may be its cause, advice where none has a name."""

from __future__ import annotations

from audit.report.samples import COUNTS_IGNORED, SUM_PROMISE, TWO_CANDIDATES, finding
from failuremap.audit.model import Candidate, Finding
from failuremap.audit.report.repairs import repairs
from failuremap.catalogue.shelf import mechanism


def of(*slugs: str, repair: str = "Divide once.") -> Finding:
    """Make a finding with these candidates and the first one's repair."""
    return finding("wrong", candidates=[Candidate(slug=slug, title=slug) for slug in slugs], repair=repair)


def test_one_candidate_has_the_repair_of_the_finding():
    assert repairs(of("replicas-summed"), COUNTS_IGNORED) == ["Divide once."]
    assert repairs(of("replicas-summed", repair=""), COUNTS_IGNORED) == []


def test_of_several_candidates_each_repair_says_for_which_it_is():
    said = repairs(of("divided-twice", "replicas-summed"), COUNTS_IGNORED)

    assert said == [
        "If it is divided-twice: Divide once.",
        f"If it is replicas-summed: {mechanism('replicas-summed').repair}",
    ]


def test_candidates_with_one_repair_share_it():
    text = mechanism("divided-twice").repair

    assert repairs(of("own-name", "divided-twice", repair=text), COUNTS_IGNORED) == [
        f"If it is own-name or divided-twice: {text}"
    ]


def test_a_candidate_that_the_catalogue_does_not_know_has_no_repair_here():
    (said,) = repairs(TWO_CANDIDATES.findings[0], TWO_CANDIDATES)

    assert said.startswith("If it is divided-by-window-twice: Divide once.")


def test_a_rule_without_a_name_has_advice():
    (said,) = repairs(of(repair=""), COUNTS_IGNORED)

    assert said == (
        "Every token should weigh 1/N, on every parameter, N being the tokens of the whole window on all ranks. "
        "That is `coefficient` times `loss_weight` of each cell (--json FILE). Compare both between the cells: "
        "coefficients come from the reduction, the accumulation and the clipping, "
        "loss weights from what each loss is divided by."
    )


def test_the_advice_follows_the_promise_and_does_not_speak_of_cells_that_are_not_there():
    assert repairs(of(repair=""), SUM_PROMISE.model_copy(update={"cells": []})) == [
        "Every sequence should weigh 1, on every parameter."
    ]
