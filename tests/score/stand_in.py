"""A candidate in this process, for tests of the judge that need hundreds of candidates: no box, and no limits."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from failuremap.catalogue.mechanism import Mechanism
from failuremap.score.examination import Examination, Seen
from failuremap.score.fixtures import Fixture, held_back, public
from failuremap.score.stopped import Stopped
from failuremap.score.wire import WireError, decode, encode


class Reply(NamedTuple):
    value: Any
    argument_after: Any
    earlier_kept: bool = True


class InProcess:
    """What a box is to an examination."""

    def __init__(self, source: str) -> None:
        names: dict[str, Any] = {}
        exec(compile(source, "candidate.py", "exec", dont_inherit=True), names)
        self.solve = names["solve"]

    def call(self, argument: object) -> Reply:
        return self._answer(decode(encode(argument)))

    def call_twice(self, argument: object) -> tuple[Reply, Reply]:
        held = decode(encode(argument))
        return self._answer(held), self._answer(held)

    def _answer(self, held: Any) -> Reply:
        try:
            return Reply(decode(encode(self.solve(held))), decode(encode(held)))
        except WireError as error:
            raise Stopped("malformed", str(error)) from None
        except Exception as error:
            raise Stopped("crashed", type(error).__name__) from None


@cache
def fixtures_of(slug: str, key: bytes) -> list[Fixture]:
    """Return all fixtures of one key, the held-back ones first; the same for every candidate, since that saves time."""
    from failuremap.catalogue import mechanism

    entry = mechanism(slug)
    return [*held_back(entry, "FM", key, "one digest for all"), *public(entry)]


def outcome(source: str, entry: Mechanism, key: bytes, fixtures: Iterable[Fixture] | None = None) -> str:
    """Return what the judge would say, and stop at the first fixture that settles it."""
    try:
        caller = InProcess(source)
    except (KeyError, SyntaxError):
        return "malformed"
    examination = Examination(entry, caller)
    for fixture in fixtures_of(entry.slug, key) if fixtures is None else fixtures:
        try:
            seen: list[Seen] = examination.put([fixture])
        except Stopped as stopped:
            return stopped.outcome
        if not seen[0].passed:
            return "wrong"
    return "accepted"
