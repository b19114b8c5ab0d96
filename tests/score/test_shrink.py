"""A counterexample is as small as it stays one, and stays in the domain."""

from __future__ import annotations

from typing import Any

import pytest

from failuremap.catalogue import mechanism
from failuremap.score.examination import Examination
from failuremap.score.fixtures import public
from failuremap.score.shrink import counterexample, readable, smaller
from failuremap.score.verdict import Counterexample
from score.stand_in import InProcess


def shown(slug: str, source: str) -> Counterexample:
    caller = InProcess(source)
    examination = Examination(mechanism(slug), caller)
    wrong = [seen for seen in examination.put(public(mechanism(slug))) if not seen.right]
    return counterexample(mechanism(slug), caller, wrong)


def test_rows_that_the_fault_does_not_need_are_left_out():
    found = shown("partials-averaged", "def solve(parts): return [sum(c) / len(parts) for c in zip(*parts)]")

    assert (found.given, found.expected, found.actual) == ("[[2], [1]]", "[3]", "[1.5]")


def test_rows_that_the_fault_needs_stay():
    source = "def solve(parts): return [sum(c) for c in zip(*parts)] if len(parts) < 3 else []"

    assert shown("partials-averaged", source).given == "[[1], [2], [1]]"


@pytest.mark.parametrize(
    "given",
    [[], {"rank": 1, "partials": [[1], [2]]}, [1, 2], (2, [[1], [2]]), {"buckets": [[[1], [2]]], "failed": [None, 0]}],
)
def test_an_input_in_which_something_numbers_the_parts_stays_whole(given: Any):
    assert list(smaller(given)) == []


def test_exact_numbers_are_shown_as_python_writes_its_own():
    from failuremap.score.oracle import exact_answer

    answer = exact_answer(mechanism("replica-means-ignore-counts"), [([1, 3], 1), ([0, 0], 2)])

    assert readable(answer.value) == [1 / 3, 1]
