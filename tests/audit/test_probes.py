"""Sizes whose ratios have one explanation each."""

from __future__ import annotations

from fractions import Fraction
from math import gcd

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failuremap.audit.probes import ratios, sizes
from failuremap.errors import InvalidArgument

SMALL = st.integers(1, 8)


@given(SMALL, SMALL, st.integers(1, 200))
@settings(max_examples=40, deadline=None)
def test_sizes_are_pairwise_coprime_and_different_and_coprime_to_the_numbers_of_ranks_and_batches(
    nproc, micro_batches, at_least
):
    table = sizes(nproc, micro_batches, at_least=at_least)

    flat = [size for row in table for size in row]
    assert [len(row) for row in table] == [micro_batches] * nproc
    assert min(flat) >= at_least
    assert all(gcd(a, b) == 1 for i, a in enumerate(flat) for b in flat[:i])
    assert all(gcd(size, nproc * micro_batches) == 1 for size in flat)


@given(SMALL, SMALL)
@settings(max_examples=40, deadline=None)
def test_each_ratio_has_one_explanation(nproc, micro_batches):
    assert ambiguous(sizes(nproc, micro_batches)) == {}


def ambiguous(table):
    """Ratios with several explanations; the numbers of ranks and of micro-batches may be equal, as the user chose."""
    found = {}
    for ratio, why in ratios(table):
        found.setdefault(ratio, set()).add(why.split(" ")[0] if "micro-batches" in why or "ranks" in why else why)
    return {ratio: why for ratio, why in found.items() if len(why) > 1 and ratio not in numbers(table)}


def numbers(table):
    """The numbers of ranks and micro-batches, which are what the user gave."""
    given = {len(table), len(table[0]), len(table) * len(table[0])}
    return {Fraction(n) for n in given} | {Fraction(1, n) for n in given}


@pytest.mark.parametrize("table", [[[4, 8], [16, 32]], [[3, 5], [6, 10]], [[5, 7], [11, 13]]])
def test_sizes_that_are_ambiguous_are_seen_to_be(table):
    found = {}
    for ratio, why in ratios(table):
        found.setdefault(ratio, []).append(why)

    assert any(len(why) > 1 for why in found.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1), "nproc=0: 1 or more."),
        ((1, -1), "micro_batches=-1: 1 or more."),
        ((64, 8), "nproc=64 with micro_batches=8: at most 256 sizes in all."),
    ],
)
def test_numbers_out_of_range_are_refused(arguments, message):
    with pytest.raises(InvalidArgument) as refused:
        sizes(*arguments)

    assert str(refused.value) == message
