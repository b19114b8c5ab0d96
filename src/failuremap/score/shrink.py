"""A public input on which a candidate is wrong, made smaller as long as it stays wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from failuremap.catalogue.mechanism import Mechanism
from failuremap.score.exact import Exact
from failuremap.score.examination import Caller, JudgeFault, Seen, right_answer
from failuremap.score.fixtures import Fixture
from failuremap.score.grade import Malformed, is_right
from failuremap.score.oracle import Answer
from failuremap.score.stopped import Stopped
from failuremap.score.verdict import Counterexample

_MOST_CALLS = 60
_MOST_CHARACTERS = 1000


def counterexample(entry: Mechanism, caller: Caller, wrong: Sequence[Seen]) -> Counterexample:
    """Returns the smallest of some wrong answers, with what can be left out of its input left out."""
    smallest = min(wrong, key=lambda seen: len(repr(seen.fixture.given)))
    budget, shrinking = _MOST_CALLS, True
    while shrinking:
        shrinking = False
        for given in smaller(smallest.fixture.given):
            budget -= 1
            if budget < 0:
                break
            tried = _wrong_on(entry, caller, smallest.fixture._replace(given=given))
            if tried:
                smallest, shrinking = tried, True
                break
    return Counterexample(
        fixture=smallest.fixture.label,
        given=repr(smallest.fixture.given),
        expected=repr(readable(smallest.answer.value)),
        actual=_shown(smallest.value),
    )


def unanswered(fixture: Fixture, answer: Answer, reason: str) -> Counterexample:
    """Returns an input on which the candidate gave no answer, as it is, and why there was none."""
    expected = repr(readable(answer.value))
    return Counterexample(fixture=fixture.label, given=repr(fixture.given), expected=expected, actual=reason)


def smaller(given: Any) -> Iterator[Any]:
    """Yields the input without one of its contributions each, where leaving one out stays in the domain.

    That is sure where the input is one list of them, or has one list of them and nothing that numbers them.

    Example:
        >>> list(smaller([([1], 2), ([3], 4)]))
        [[([3], 4)], [([1], 2)]]
    """
    if isinstance(given, list) and all(isinstance(part, list | tuple | dict) for part in given):
        yield from (given[:place] + given[place + 1 :] for place in range(len(given)))


def readable(value: Any) -> Any:
    """Returns exact numbers as Python's own, rounded where they are no integers."""
    if isinstance(value, list):
        return [readable(part) for part in value]
    if not isinstance(value, Exact):
        return value
    return int(value.value) if value.value == int(value.value) else float(value.value)


def _shown(value: Any) -> str:
    """Returns an answer in Python's notation, cut where it is long: a candidate may give what nobody reads."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def _wrong_on(entry: Mechanism, caller: Caller, fixture: Fixture) -> Seen | None:
    """Returns what the candidate gave where it is wrong there too."""
    try:
        answer = right_answer(entry, fixture)
        value = caller.call(fixture.given).value
        return None if is_right(value, answer) else Seen(fixture, False, True, value, answer)
    except (JudgeFault, Malformed, Stopped):
        return None
