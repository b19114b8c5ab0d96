"""A box with a candidate in it: inputs go in, values come out, and nothing that comes out is believed to be more."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from failuremap.score.box import program
from failuremap.score.box.process import Ended, Process
from failuremap.score.box.reasons import reason_for, reason_of_end
from failuremap.score.limits import Limits, Usage
from failuremap.score.stopped import Stopped
from failuremap.score.wire import WireError, decode, encode, read_line, write_line

READY_BYTES = 1 << 10
_START_S = 20.0


class NotStarted(Exception):
    """The box never came to the point where it could take a candidate."""


@dataclass(frozen=True)
class Answer:
    """What one call gave, in values of exact types."""

    value: Any
    argument_after: Any
    """The argument as the call left it."""


class Box:
    """A candidate that is loaded and answers; `open_box` makes one.

    Attributes:
        level: How it is shut in: `box-3`, `box-2`, `box-1` or `none`.
    """

    def __init__(self, process: Process, level: str, limits: Limits) -> None:
        self.level = level
        self._process = process
        self._limits = limits
        self._wall_before_s = 0.0

    def call(self, argument: object) -> Answer:
        """Returns what `solve` gives for an argument.

        Raises:
            Stopped: There is no answer, and there will be none to later calls.
        """
        encoded = encode(argument)
        return self._answer(["call", encoded], encoded)

    def call_again(self) -> Answer:
        """Returns what `solve` gives for the very object of the last call, as that call left it."""
        return self._answer(["again"], self._after)

    def load(self, source: str) -> None:
        """Loads the candidate."""
        tree = self._ask([source])
        if tree != ["loaded"]:
            raise self._malformed()

    def make_ready(self, candidate: str) -> None:
        """Gives the process its program; a process that fails here is not the candidate's fault."""
        number = secrets.token_hex(16)
        lines = program.first_line() + write_line([number, *program.setup(candidate, self._limits)])
        try:
            answer = self._process.exchange(lines, most_bytes=READY_BYTES, until_s=_START_S)
        except (Ended, Stopped):
            raise NotStarted from None
        if answer != write_line([number, "ready"]).rstrip():
            raise NotStarted
        self._wall_before_s = self._process.waited_s

    def _answer(self, request: list[Any], encoded: Any) -> Answer:
        tree = self._ask(request)
        if len(tree) != 3 or tree[0] != "value":
            raise self._malformed()
        try:
            self._after = encoded if tree[2] is None else tree[2]
            return Answer(decode(tree[1]), decode(self._after))
        except WireError:
            raise self._malformed() from None

    def _ask(self, request: list[Any]) -> list[Any]:
        number = secrets.token_hex(16)
        try:
            line = self._process.exchange(
                write_line([number, *request]),
                most_bytes=self._limits.output_bytes,
                until_s=self._wall_before_s + self._limits.wall_s,
            )
            answered, *tree = read_line(line)
        except Ended:
            raise reason_of_end(self._process.exit_code(), self.level, self._limits) from None
        except (WireError, TypeError, ValueError):
            raise self._malformed() from None
        if answered != number:
            raise self._malformed()
        if tree[:1] == ["stop"]:
            raise reason_for(tree[1:], self._limits)
        return list(tree)

    @staticmethod
    def _malformed() -> Stopped:
        return Stopped("malformed", "the candidate wrote to the judge itself, out of turn or in no form it understands")

    @property
    def usage(self) -> Usage:
        """What the candidate has used so far."""
        return Usage(0.0, self._process.waited_s - self._wall_before_s, 0)

    def close(self) -> None:
        """Ends everything that runs in the box."""
        self._process.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
