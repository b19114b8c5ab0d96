"""All fixtures put to one candidate, each twice, and what was right of what came back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from failuremap.catalogue.mechanism import Mechanism
from failuremap.score.fixtures import Fixture, clauses_of, purity_of
from failuremap.score.grade import Malformed, graded, same, worst_ulps
from failuremap.score.oracle import Answer, exact_answer
from failuremap.score.stopped import Stopped
from failuremap.score.verdict import Numerics


class Reply(Protocol):
    """What one call gave."""

    @property
    def value(self) -> Any:
        """What `solve` returned."""

    @property
    def argument_after(self) -> Any:
        """The argument as the call left it."""

    @property
    def earlier_kept(self) -> bool:
        """True where the call left the answer to the one before as it was."""


class Caller(Protocol):
    """What an examination needs of a box."""

    def call(self, argument: object) -> Reply:
        """Returns what `solve` gives for an argument."""

    def call_twice(self, argument: object) -> tuple[Reply, Reply]:
        """Returns the same, and what `solve` then gives for the same object as that call left it."""


class JudgeFault(Exception):
    """The judge itself failed; the message says where."""


@dataclass(frozen=True)
class Seen:
    """What came of one fixture."""

    fixture: Fixture
    right: bool
    pure: bool
    value: Any
    answer: Answer
    nearest: bool = False
    """Each number of the value is the nearest float."""

    @property
    def passed(self) -> bool:
        """True where the answer was right, and the call left no trace."""
        return self.right and self.pure


@dataclass
class Examination:
    """One candidate under examination.

    Attributes:
        entry: The mechanism whose contract is asked for.
        caller: The candidate.
        seen: What came of the fixtures so far.
        failed_at: The fixture at which there was no answer, where that is the candidate's fault.
    """

    entry: Mechanism
    caller: Caller
    seen: list[Seen] = field(default_factory=list)
    failed_at: Fixture | None = None

    def put(self, fixtures: Sequence[Fixture], answers: Iterable[Answer] | None = None) -> list[Seen]:
        """Puts fixtures to the candidate, and returns what came of them.

        Args:
            fixtures: The inputs.
            answers: What is right for each; asked of the oracle one by one where it is not given.

        Raises:
            Stopped: There was no answer, or one of the wrong form.
            JudgeFault: The oracle could not tell what is right.
        """
        first = len(self.seen)
        if answers is None:
            answers = (right_answer(self.entry, fixture) for fixture in fixtures)
        for fixture, answer in zip(fixtures, answers, strict=True):
            try:
                self.seen.append(self._look(fixture, answer))
            except Stopped as stopped:
                self.failed_at = fixture if stopped.outcome != "judge-error" else None
                raise
        return self.seen[first:]

    def _look(self, fixture: Fixture, answer: Answer) -> Seen:
        once, again = self.caller.call_twice(fixture.given)
        try:
            grade = graded(once.value, answer)
        except Malformed as form:
            raise Stopped("malformed", f"the candidate's answer has {form}") from None
        except Exception as error:
            raise _fault(error, self.entry, fixture) from error
        unchanged = all(reply.earlier_kept and same(reply.argument_after, fixture.given) for reply in (once, again))
        pure = unchanged and same(once.value, again.value)
        return Seen(fixture, grade.right, pure, once.value, answer, grade.nearest)

    def clauses(self, unseen: Sequence[Fixture]) -> dict[str, bool | None]:
        """Says of each clause whether it held; None where some of its fixtures were not put and no other failed."""
        held: dict[str, bool | None] = dict.fromkeys(clauses_of(self.entry), True)
        for fixture in unseen:
            held.update(dict.fromkeys((*fixture.clauses, purity_of(self.entry)), None))
        for seen in self.seen:
            if not seen.right:
                held.update(dict.fromkeys(seen.fixture.clauses, False))
            if not seen.pure:
                held[purity_of(self.entry)] = False
        if self.failed_at:
            held.update(dict.fromkeys(self.failed_at.clauses, False))
        return held


def numerics(drawn: Sequence[Seen]) -> Numerics:
    """Measures how exact right answers are, and whether they depend on the order of the contributions."""
    worst = max((0.0 if seen.nearest else worst_ulps(seen.value, seen.answer) for seen in drawn), default=None)
    pairs = [(seen, drawn[seen.fixture.twin]) for seen in drawn if seen.fixture.twin is not None]
    agree = [same(one.value, other.value) for one, other in pairs if one.answer.value == other.answer.value]
    return Numerics(worst_ulps=worst, order_independent=all(agree) if agree else None)


def right_answer(entry: Mechanism, fixture: Fixture) -> Answer:
    """Returns the oracle's answer.

    Raises:
        JudgeFault: It has none.
    """
    try:
        return exact_answer(entry, fixture.given)
    except Exception as error:
        raise _fault(error, entry, fixture) from error


def _fault(error: Exception, entry: Mechanism, fixture: Fixture) -> JudgeFault:
    return JudgeFault(f"{type(error).__name__} in the oracle of {entry.slug} at {fixture.label!r}")
