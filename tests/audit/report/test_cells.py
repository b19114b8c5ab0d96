"""The word for each share, and the fold of too many cells."""

from __future__ import annotations

import math

import pytest

from audit.report.samples import PART_OF_PARAMETERS, SEVERAL_FINDINGS, grid
from failuremap.audit.report.cells import count_text, fold, main_cells, main_step, of_fair, share_text, word


@pytest.mark.parametrize(
    ("share", "named"),
    [
        (1.0, "fair"),
        (1.004, "fair"),
        (0.99, "light"),
        (1.01, "heavy"),
        (0.0, "no weight"),
        (-0.5, "negative"),
        (math.inf, "heavy"),
        (math.nan, "not a number"),
        (None, "not measured"),
    ],
)
def test_each_share_has_a_word(share: float | None, named: str):
    assert word(share, "wrong") == named


def test_a_right_verdict_calls_shares_at_the_noise_of_bfloat16_fair():
    assert [word(1.03, "right"), word(1.03, "wrong")] == ["fair", "heavy"]


def test_a_fold_keeps_the_ends_and_counts_what_lies_between():
    folded = fold(grid(8, 1, lambda r, m: 1.0 + r), keep=2)

    assert [cell.rank for cell in folded.heaviest] == [7, 6]
    assert [cell.rank for cell in folded.lightest] == [1, 0]
    assert folded.summary == "4 cells between, from 3.00 to 6.00 times a fair share"


def test_a_fold_of_few_cells_shows_each_once():
    folded = fold(grid(3, 1), keep=2)

    assert [cell.rank for cell in folded.heaviest + folded.lightest] == [0, 1, 2]
    assert folded.summary == ""


def test_a_fold_says_how_many_cells_were_not_measured():
    folded = fold(grid(4, 1, lambda r, m: [None, math.nan, 1.0, 2.0][r]), keep=1)

    assert [cell.rank for cell in folded.heaviest + folded.lightest] == [3, 2]
    assert folded.summary == "2 cells not measured"


def test_the_cells_of_the_sentence_are_those_of_the_first_finding_if_it_has_any():
    own = grid(1, 1, lambda r, m: 7.0)
    first = PART_OF_PARAMETERS.findings[0].model_copy(update={"cells": own})

    assert main_cells(PART_OF_PARAMETERS.model_copy(update={"findings": [first]})) == own
    assert main_cells(SEVERAL_FINDINGS) == SEVERAL_FINDINGS.cells


def test_the_step_is_that_of_the_cells_shown():
    own = PART_OF_PARAMETERS.findings[0].model_copy(update={"cells": grid(1, 1), "cells_step": 5})
    without = PART_OF_PARAMETERS.model_copy(update={"cells_step": 3})

    assert main_step(without) == 3
    assert main_step(without.model_copy(update={"findings": [own]})) == 5


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (27.0, "27.0 times a fair share"),
        (1.64, "1.64 times a fair share"),
        (1.002, "1.00 of a fair share"),
        (0.72, "0.72 of a fair share"),
        (-12.5, "-12.5 of a fair share"),
        (31415.9, "3e4 times a fair share"),
    ],
)
def test_a_share_is_times_a_fair_one_above_it_and_of_a_fair_one_below(share: float, said: str):
    assert f"{share_text(share)} {of_fair(share)}" == said


def test_a_fold_between_light_cells_is_of_a_fair_share():
    assert fold(grid(3, 1, lambda r, m: 0.5), keep=1).summary == "1 cell between, all 0.50 of a fair share"


def test_a_count_that_was_not_seen_says_so():
    assert count_text(None, "token") == "tokens not seen"
