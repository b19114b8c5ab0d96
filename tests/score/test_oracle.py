"""The oracle: two routes agree for every mechanism, and its bounds are as wide as they must be and no wider."""

from __future__ import annotations

import pytest

from failuremap.catalogue import Mechanism, mechanism, mechanisms
from failuremap.score.exact import Exact
from failuremap.score.oracle import exact_answer, rule_answer
from score.stand_in import fixtures_of

KEY = b"the oracle's key"
ENTRIES = [entry for entry in mechanisms().values() if entry.stages]
RULED = [entry for entry in ENTRIES if entry.promised]
LAWFUL = [entry for entry in ENTRIES if not entry.promised]


def values(answer: object) -> object:
    """Return an answer's exact numbers alone."""
    if isinstance(answer, list):
        return [values(part) for part in answer]
    return answer.value if isinstance(answer, Exact) else answer


@pytest.mark.parametrize("entry", RULED, ids=lambda entry: entry.slug)
def test_the_repair_in_exact_numbers_is_the_promised_rule(entry: Mechanism):
    checked = 0
    for fixture in fixtures_of(entry.slug, KEY):
        answer = exact_answer(entry, fixture.given).value
        if answer and all(isinstance(number, Exact) for number in answer):
            assert values(answer) == rule_answer(entry, fixture.given), fixture.label
            checked += 1

    assert checked >= 50


@pytest.mark.parametrize("entry", LAWFUL, ids=lambda entry: entry.slug)
def test_the_exact_answers_keep_the_law(entry: Mechanism):
    stages, checked = entry.stages, 0
    for fixture in fixtures_of(entry.slug, KEY):
        if fixture.label.startswith("random"):  # what the law is made for: numbers of ordinary size
            assert stages.law(fixture.given, lambda given: values(exact_answer(entry, given).value)), fixture.label
            checked += 1

    assert checked >= 10


def test_a_sum_that_a_float_holds_has_no_room_for_error_and_a_mean_has_a_few_units_of_the_last_place():
    total = exact_answer(mechanism("partials-averaged"), [[1], [0.5], [-3]])
    mean = exact_answer(mechanism("replica-means-ignore-counts"), [([3.0], 1), ([5.0], 2)])

    assert total.bound(total.value[0], 0) == 0
    assert mean.bound(mean.value[0], 0) == pytest.approx(4 * (2 + 2) * 2**-53 * 26 / 3)


def test_a_contribution_without_units_widens_no_bound():
    rows = [([3.0], 1), ([5.0], 2)]
    mechanism_of_means = mechanism("replica-means-ignore-counts")
    without, beside = exact_answer(mechanism_of_means, rows), exact_answer(mechanism_of_means, [*rows, ([1e300], 0)])

    assert beside.contributions == (without.contributions[0], 3)


def test_a_nan_of_a_row_that_has_units_is_the_answer():
    answer = exact_answer(mechanism("zero-count-times-nan"), [([float("nan"), 1], 1), ([2, 3], 1)])

    assert str(answer.value) == "[nan, Exact(2)]"
