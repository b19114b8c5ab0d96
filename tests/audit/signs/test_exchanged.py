"""Updates that hold another parameter's gradient in place of their own are named; sums of both accuse nobody."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import kinds, last, the_fault
from audit.traces import HandJob
from failuremap.audit import diagnose
from failuremap.catalogue.signs import Sign

SHAPES = {"a.weight": (8, 16), "a.bias": (8,), "b.weight": (8, 16), "b.bias": (8,), "c.weight": (16, 16)}
OTHER = {"a.weight": "b.weight", "b.weight": "a.weight", "a.bias": "b.bias", "b.bias": "a.bias"}
EVEN = [[300], [300]]


def exchanged(names, *, beside=0.0):
    """The mean; but rank 1 has these parameters at each other's place. `beside`: how much of their own is in it."""

    def update(window):
        mean = window.combined(1 / len(window.counts_RM))
        for name in names:
            own, other = window.columns(name), window.columns(OTHER[name])
            first, second = window.gradients_RML[:, 0, own], window.gradients_RML[:, 0, other]
            mean[0, own] = (first[0] + second[1] + beside * first[1]) / 2
            mean[1, own] = (first[1] + second[0] + beside * first[0]) / 2
        return mean

    return update


def test_parameters_at_each_others_place_are_named_with_the_rank(tmp_path):
    verdict = diagnose(HandJob(EVEN, exchanged(OTHER), shapes=SHAPES).write(tmp_path))

    (finding,) = verdict.findings
    assert [candidate.slug for candidate in finding.candidates] == ["misaligned-shards"]
    assert finding.sentence == (
        "4 of 5 parameters step on gradients of other parameters (a.bias, a.weight, b.bias and 1 more): a.weight on "
        "that of b.weight from rank 1."
    )
    assert finding.parameters == sorted(OTHER)


def test_small_parameters_are_told_where_a_larger_one_shows_how(tmp_path):
    fault = the_fault(last(HandJob(EVEN, exchanged(["a.weight", "a.bias"]), shapes=SHAPES), tmp_path))

    assert fault.parameters == ["a.bias", "a.weight"]
    assert Sign.OTHER_PARAMETER_ADDED in fault.signs


def test_small_parameters_alone_are_too_few_numbers(tmp_path):
    judged = last(HandJob(EVEN, exchanged(["a.bias", "b.bias"]), shapes=SHAPES), tmp_path)

    assert judged.faults == []
    assert "2 of 5 parameters (a.bias, b.bias)" in judged.unexplained[0]


def test_the_sum_of_both_parameters_gradients_is_no_exchange(tmp_path):
    judged = last(HandJob(EVEN, exchanged(["a.weight", "b.weight"], beside=1.0), shapes=SHAPES), tmp_path)

    assert judged.faults == []
    assert "no combination of the gradients" in judged.unexplained[0]


@pytest.mark.parametrize("copies", [True, False])
def test_ranks_that_have_one_gradient_each_exchange_them_but_where_both_hold_one_weight(copies, tmp_path):
    """Stages that hold copies of one weight each have the gradient of their own copy, and are meant to add these up."""
    first, second = slice(0, 128), slice(128 + 8, 256 + 8)

    def alone(drawn, _):
        drawn[0, :, second] = 0
        drawn[1, :, first] = 0
        return drawn

    def update(window):
        both = window.combined(1.0)
        total = both[:, first] + both[:, second]
        both[:, first] = both[:, second] = total
        return both

    def weights(drawn, _):
        drawn[second] = drawn[first] if copies else drawn[second]
        return drawn

    judged = last(HandJob(EVEN, update, shapes=SHAPES, gradients=alone, weights=weights), tmp_path)

    assert ("exchanged" in kinds(judged)) != copies


@pytest.mark.parametrize("noise", [1e-3, 1.0])
def test_what_no_two_parameters_explain_stays_unexplained(noise, tmp_path):
    def update(window):
        changed = exchanged(["a.weight"])(window)
        changed[:, window.columns("a.weight")] += noise * np.random.default_rng(3).normal(size=128)
        return changed

    judged = last(HandJob(EVEN, update, shapes=SHAPES), tmp_path)

    assert judged.faults == []
    assert "1 of 5 parameters (a.weight)" in judged.unexplained[0]
