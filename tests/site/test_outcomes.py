"""How a result differs from what was expected is said in words, for every failing row of the catalogue."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failuremap.site.outcomes import how_it_differs, stage_run


@pytest.mark.parametrize(
    ("actual", "expected", "words"),
    [
        ([2.0, 3.0], [4, 6], "1/2 of what is expected"),
        ([8.0], [4], "2 times what is expected"),
        ([-4.0], [4], "-1 times what is expected"),
        ([75.0], [64], "1.17 times what is expected"),
        ([0.0], [5], "nothing of what is expected"),
        ([0.6666666666666666], [2], "1/3 of what is expected"),
        ([], [3], "no result"),
        ([0.0], [], "a result where none is right"),
        ([1], [1, 2], "1 values, not 2"),
        ([1, 2, 3], [1, 2, 4], "number 3 is 3, not 4"),
        ([1, 5, 3], [1, 2, 4], "number 2 is 5, not 2; 1 more differs"),
        ([9, 5, 4], [1, 2, 3], "number 1 is 9, not 1; 2 more differ"),
        ([1.0], [1.0000000000000002], "number 1 is 1, not 1.0000000000000002"),
        (["nan"], [2], 'number 1 is "nan", not 2'),
        ([[1.0], [2]], [[2], [4]], "1/2 of what is expected"),
        (True, False, "number 1 is true, not false"),
        ([3], [0], "number 1 is 3, not 0"),
        ([[1], [2]], [1, 2], "the same values in another form"),
    ],
)
def test_a_difference_in_words(actual, expected, words):
    assert how_it_differs(actual, expected) == words


numbers = st.integers(-99, 99) | st.floats(-99, 99)


@given(st.lists(numbers, min_size=1), st.lists(numbers, min_size=1))
def test_all_numbers_that_differ_have_words(actual, expected):
    if actual != expected:
        assert how_it_differs(actual, expected)


@given(st.lists(st.integers(1, 999), min_size=1, max_size=5), st.integers(2, 9), st.integers(1, 12))
def test_a_common_factor_is_found(expected, numerator, denominator):
    ratio = Fraction(numerator, denominator)
    if ratio != 1:
        said = how_it_differs([float(value * ratio) for value in expected], expected)

        assert said == f"{ratio} {'of' if ratio < 1 else 'times'} what is expected"


def test_every_failing_row_says_how_it_differs_and_what_it_breaks(content):
    rows = [
        (case.id, stage, row)
        for case in content.cases
        for stage in case.runs()
        for row in stage_run(case, stage).rows
        if not row.passed
    ]

    assert len(rows) > 100
    assert [(case, stage, row.check) for case, stage, row in rows if not (row.differs and row.breaks)] == []


def test_a_row_that_passed_says_neither(content):
    case = content.cases[0]
    rows = [row for row in stage_run(case, "broken").rows if row.passed]

    assert {(row.differs, row.breaks) for row in rows} <= {("", ())}
    assert stage_run(case, "broken").failed_count == case.checks - len(rows)
