"""Which ranks hold the same weights, and where they differ."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from audit.pipeline_traces import PipelineJob, ranks_in
from audit.traces import HandJob
from failuremap.audit import diagnose
from failuremap.audit.sentences.step_words import agreeing
from failuremap.audit.signs.replicas import compared, final_agreement

STARTS = np.array([0, 2, 5])
EXACT = np.array([True, True, False, True, False])


@given(st.lists(st.integers(0, 2), min_size=2, max_size=7))
def test_ranks_are_grouped_by_what_they_hold(drawn):
    rows = np.array([[0.0, 0.0, 0.0, float(value), 0.0] for value in drawn])
    found = compared(rows, EXACT, STARTS, range(len(drawn)))
    expected = {tuple(rank for rank, own in enumerate(drawn) if own == value) for value in set(drawn)}
    assert {tuple(group) for group in found.groups} == expected
    assert found.differs_P.tolist() == [False, len(set(drawn)) > 1]


def test_elements_are_compared_bit_by_bit_and_sums_up_to_rounding():
    rows = np.ones((2, 5))
    rows[1, EXACT] += 1e-9
    assert compared(rows, EXACT, STARTS, [0, 1]).differs_P.all()
    rows = np.ones((2, 5))
    rows[1, ~EXACT] += 1e-9
    assert not compared(rows, EXACT, STARTS, [0, 1]).differs_P.any()


def test_weights_that_differ_by_rounding_alone_are_told_from_others():
    rows = np.array([[0.3, 1.0, 1.0, 0.5, 1.0], [0.3 + 2**-24, 1.0, 1.0 + 1e-7, 0.5, 1.0]])
    assert compared(rows, EXACT, STARTS, [0, 1]).by_rounding
    rows[1, 3] += 2**-19
    assert not compared(rows, EXACT, STARTS, [0, 1]).by_rounding


def test_ranks_whose_weights_differ_by_rounding_alone_are_right_with_a_note(tmp_path):
    rounded = HandJob(counts=((5,),) * 2, weights=lambda own, rank: own * (1 + rank * 2**-23))
    verdict = diagnose(rounded.write(tmp_path))
    assert (verdict.outcome, [note for note in verdict.notes if "by rounding alone" in note] != []) == ("right", True)


def test_numbers_that_are_not_known_differ_from_none():
    rows = np.array([[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, np.nan, 1.0, 1.0, 1.0]])
    assert compared(rows, EXACT, STARTS, [0, 1]).groups == [[0, 1]]


def test_ranks_that_hold_other_parameters_are_held_against_those_that_hold_the_same():
    nan = np.nan
    rows = np.array([[1, 1, nan, nan, nan], [nan, nan, 1, 1, 1], [1, 1, nan, nan, nan], [nan, nan, 1, 2, 1]])

    found = compared(rows, EXACT, STARTS, range(4))

    assert (found.differs_P.tolist(), found.groups) == ([False, True], [[0, 1, 2], [3]])


def test_replicas_of_a_stage_that_end_apart_are_found(tmp_path):
    ranks = ranks_in(PipelineJob(((300, 300), (300, 300))).write(tmp_path))
    assert final_agreement(ranks) == (set(), [[0, 1, 2, 3]])

    ranks[3].final_weights.numbers = ranks[3].final_weights.numbers + 1

    assert final_agreement(ranks) == ({"w (stage 1)", "b (stage 1)"}, [[0, 1, 2], [3]])


def test_more_than_eight_groups_are_not_listed():
    found = compared(np.arange(9.0)[:, None] * np.ones(5), EXACT, STARTS, range(9))
    assert (found.groups, found.differs_P.tolist()) == ([], [True, True])


def test_the_half_of_a_split_group_is_named(tmp_path):
    job = HandJob(counts=((5,),) * 4, weights=lambda weights, rank: weights + (rank > 1))
    assert diagnose(job.write(tmp_path)).sentence.endswith(" Ranks 0, 1 agree with each other, and ranks 2, 3.")


def test_one_rank_that_strays_is_named(tmp_path):
    verdict = diagnose(HandJob(counts=((5,),) * 3, weights=lambda own, rank: own + (rank == 1)).write(tmp_path))
    assert verdict.sentence.endswith(" Rank 1 differs from the others.")


def test_ranks_that_agree_are_told_in_words():
    assert agreeing([[0], [1], [2]]) == agreeing([]) == agreeing([[0], [1]]) == ""
    assert agreeing([[0, 1], [2], [4, 5]]) == " Ranks 0, 1 agree with each other, and ranks 4, 5; alone: rank 2."
    assert agreeing([[0, 1], list(range(2, 12))]).endswith("and ranks 2, 3, 4, 5, 6, 7, 8, 9 and 2 more.")
