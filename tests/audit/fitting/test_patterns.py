"""The shape of the coefficients: which contributions are in an update, which are gone, and which cannot be told."""

from __future__ import annotations

import numpy as np
import pytest

from failuremap.audit.fitting.patterns import Presence, missing, own_only, presence, unsynchronised_tail
from failuremap.catalogue.signs import Sign

KEYS = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def found(*coefficients: float) -> Presence:
    """The presence of six contributions with exact coefficients."""
    values = np.array(coefficients, dtype=float)
    return presence(values, np.full(len(values), 1e-7), np.ones(len(values), dtype=bool))


EVERYTHING = found(1, 1, 1, 1, 1, 1)


def test_a_contribution_with_a_coefficient_is_live_and_one_without_is_gone():
    got = found(1, 0, 2e-3, 1e-4, -1, 1)

    assert got.live.tolist() == [True, False, True, False, True, True]
    assert got.gone.tolist() == [False, True, False, True, False, False]


def test_a_contribution_with_a_large_error_is_not_gone():
    got = presence(np.array([1.0, 0.0]), np.array([1e-7, 0.2]), np.ones(2, dtype=bool))

    assert got.gone.tolist() == [False, False]


def test_a_contribution_without_any_gradient_is_neither_live_nor_gone():
    got = presence(np.array([1.0, 0.0]), np.array([1e-7, np.inf]), np.array([True, False]))

    assert (got.live.tolist(), got.gone.tolist()) == ([True, False], [False, False])


def test_in_an_update_of_zero_all_are_gone():
    got = presence(np.zeros(2), np.zeros(2), np.ones(2, dtype=bool))

    assert (got.live.any(), got.gone.all()) == (False, True)


def test_own_only_is_the_own_ranks_contributions_and_no_other():
    got = found(1, 1, 1, 0, 0, 0)

    assert own_only(got, KEYS, 0)
    assert not own_only(got, KEYS, 1)


def test_own_only_holds_with_a_part_of_the_own_contributions():
    assert own_only(found(0, 0, 1, 0, 0, 0), KEYS, 0)


@pytest.mark.parametrize("coefficients", [(1, 1, 1, 1, 1, 1), (1, 1, 1, 0, 0, 1), (0, 0, 0, 1, 1, 1)])
def test_a_contribution_of_another_rank_is_not_own_only(coefficients):
    assert not own_only(found(*coefficients), KEYS, 0)


def test_a_single_rank_is_never_own_only():
    assert not own_only(found(1, 1), [(0, 0), (0, 1)], 0)


def test_the_tail_is_unsynchronised_where_later_micro_batches_are_the_own_ones_alone():
    assert unsynchronised_tail(found(1, 1, 1, 1, 0, 0), KEYS, 0)
    assert unsynchronised_tail(found(1, 1, 1, 1, 1, 0), KEYS, 0)


@pytest.mark.parametrize(
    "coefficients", [(1, 1, 1, 1, 1, 1), (1, 1, 1, 0, 0, 0), (1, 0, 0, 1, 0, 0), (0, 0, 1, 0, 0, 1)]
)
def test_other_shapes_are_no_unsynchronised_tail(coefficients):
    assert not unsynchronised_tail(found(*coefficients), KEYS, 0)


@pytest.mark.parametrize(
    ("coefficients", "signs", "which"),
    [
        ((1, 1, 1, 1, 1, 1), set(), []),
        ((1, 1, 0, 0, 1, 1), set(), []),
        ((1, 1, 1, 0, 0, 0), {Sign.RANK_MISSING, Sign.FIRST_RANK_ONLY}, [1]),
        ((0, 0, 0, 1, 1, 1), {Sign.RANK_MISSING}, [0]),
        ((0, 0, 1, 0, 0, 1), {Sign.LAST_MICRO_BATCH_ONLY}, [0, 1]),
        ((1, 0, 0, 1, 0, 0), {Sign.FIRST_MICRO_BATCH_ONLY}, [1, 2]),
        ((1, 0, 1, 1, 0, 1), {Sign.MICRO_BATCH_MISSING}, [1]),
        ((0, 1, 1, 0, 1, 1), {Sign.MICRO_BATCH_MISSING}, [0]),
    ],
)
def test_what_is_missing_is_named(coefficients, signs, which):
    assert missing(found(*coefficients), KEYS) == (signs, which)


def test_a_rank_whose_gradients_are_zero_is_not_missing():
    nonzero = np.array([True, True, True, False, False, False])

    got = presence(np.array([1.0, 1, 1, 0, 0, 0]), np.where(nonzero, 1e-7, np.inf), nonzero)

    assert missing(got, KEYS) == (set(), [])


def test_a_rank_of_three_that_is_missing_is_no_broadcast():
    keys = [(0, 0), (1, 0), (2, 0)]

    assert missing(found(1, 0, 1), keys) == ({Sign.RANK_MISSING}, [1])
    assert missing(found(1, 0, 0), keys) == ({Sign.RANK_MISSING, Sign.FIRST_RANK_ONLY}, [1, 2])
