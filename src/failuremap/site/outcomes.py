"""What a check gave against what the contract wants: the values as text, and how the one differs from the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from failuremap.catalogue.records.digest import sha256_text
from failuremap.catalogue.records.model import Case
from failuremap.catalogue.records.parts import Clause, Observation

# A ratio of two floats is told where it is one of small numbers, up to rounding, and as such where they are very small.
_LARGEST_DENOMINATOR = 64
_SMALL_DENOMINATOR = 12
_ROUNDING = Fraction(1, 2**44)


@dataclass(frozen=True)
class Row:
    """One row of the table of a stage.

    Attributes:
        check: The fixture's label.
        actual: What the stage returned, as JSON.
        expected: What the contract wants, as JSON.
        passed: Whether these are the same.
        differs: How they differ, in words; "" where they don't.
        breaks: The clauses of the contract that a failure of this check breaks.
    """

    check: str
    actual: str
    expected: str
    passed: bool
    differs: str
    breaks: tuple[Clause, ...]


@dataclass(frozen=True)
class StageRun:
    """What one stage of a case gave.

    Attributes:
        case: The case.
        rows: A row for each check, in their order.
        exit_code: That of the script.
        sha256: That of the script's text.
        stdout_sha256: That of what it printed.
    """

    case: Case
    rows: list[Row]
    exit_code: int
    sha256: str
    stdout_sha256: str

    @property
    def failed_count(self) -> int:
        """How many checks failed."""
        return sum(not row.passed for row in self.rows)


def stage_run(case: Case, stage: str) -> StageRun:
    """Returns what a stage of a case gave, as it is recorded."""
    run = case.runs()[stage]
    sha256 = getattr(case.implementations, stage).sha256
    rows = [_row(case, seen) for seen in run.observations]
    return StageRun(case, rows, run.exit_code, sha256, sha256_text(run.stdout))


def _row(case: Case, seen: Observation) -> Row:
    breaks = () if seen.passed else tuple(one for one in case.contract.clauses if seen.check in one.checks)
    differs = "" if seen.passed else how_it_differs(seen.actual, seen.expected)
    return Row(seen.check, as_text(seen.actual), as_text(seen.expected), seen.passed, differs, breaks)


def as_text(value: Any) -> str:
    """Writes a value as the script prints it."""
    return json.dumps(value, ensure_ascii=False)


def how_it_differs(actual: Any, expected: Any) -> str:
    """Says in a few words how a result differs from what was expected.

    Example:
        >>> how_it_differs([2.0, 3.0], [4, 6])
        '1/2 of what is expected'
        >>> how_it_differs([1, 2, 3], [1, 2, 4])
        'number 3 is 3, not 4'
        >>> how_it_differs([0.0], [])
        'a result where none is right'
    """
    if actual == [] or expected == []:
        return "no result" if actual == [] else "a result where none is right"
    left, right = list(_numbers(actual)), list(_numbers(expected))
    if len(left) != len(right):
        return f"{len(left)} values, not {len(right)}"
    ratio = _common_ratio(left, right)
    if ratio is not None:
        return f"{_words_of(ratio)} what is expected" if ratio else "nothing of what is expected"
    places = [place for place, pair in enumerate(zip(left, right, strict=True)) if pair[0] != pair[1]]
    if not places:
        return "the same values in another form"
    first, more = places[0], len(places) - 1
    said = f"number {first + 1} is {_told_apart(left[first], right[first])}"
    return said + (f"; {more} more differ{'s' if more == 1 else ''}" if more else "")


def _numbers(value: Any) -> Iterator[Any]:
    """Walks through the numbers and texts of a value."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _numbers(inner)
    else:
        yield value


def _common_ratio(left: list[Any], right: list[Any]) -> Fraction | None:
    """Returns the factor between all numbers of two lists, where there is one that is simple."""
    if not all(type(value) in {int, float} for value in left + right) or not any(right):
        return None
    pairs = list(zip(map(Fraction, left), map(Fraction, right), strict=True))
    exact = next(one / other for one, other in pairs if other)
    ratio = exact.limit_denominator(_LARGEST_DENOMINATOR)
    near = all(abs(one - ratio * other) <= _ROUNDING * max(abs(one), abs(other)) for one, other in pairs)
    return ratio if near and ratio != 1 else None


def _words_of(ratio: Fraction) -> str:
    told = str(ratio) if ratio.denominator <= _SMALL_DENOMINATOR else f"{float(ratio):.3g}"
    return f"{told} {'of' if abs(ratio) < 1 else 'times'}"


def _told_apart(left: Any, right: Any) -> str:
    """Writes two values, with as few digits as tell the one from the other."""
    pairs = ((_short(left, digits), _short(right, digits)) for digits in (6, 17))
    one, other = next(pair for pair in pairs if pair[0] != pair[1] or pair[0] == as_text(left))
    return f"{one}, not {other}"


def _short(value: Any, digits: int) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else as_text(value)
