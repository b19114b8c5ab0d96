"""A box with a candidate in it: inputs go in, values come out, and nothing that comes out is believed to be more."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from failuremap.score.box.cgroup import Cgroup
from failuremap.score.box.process import Ended, Process
from failuremap.score.box.program import first_line, setup
from failuremap.score.box.reasons import reason_for, reason_of_cpu, reason_of_end
from failuremap.score.box.usage import chain, measure, starved_s
from failuremap.score.limits import Limits, Usage
from failuremap.score.stopped import Stopped
from failuremap.score.wire import WireError, decode, encode, pack, read_line, write_line

_READY_BYTES = 1 << 10
_START_S = 60.0
_OUT_OF_TURN = "the candidate wrote to the judge itself, out of turn or in no form that it reads"


class NotStarted(Exception):
    """The box never came to the point where it could take a candidate; says why, as far as it is known."""


@dataclass(frozen=True)
class Answer:
    """What one call gave, in values of exact types."""

    value: Any
    argument_after: Any
    """The argument as the call left it."""
    earlier_kept: bool = field(default=True, repr=False)
    """The call left the answer to the one before as it was."""


class Box:
    """A candidate that is loaded and answers; `open_box` makes one.

    Attributes:
        level: How it is shut in: `box-3`, `box-2`, `box-1` or `none`.
        pid: The candidate's process, as this machine numbers it.
    """

    def __init__(self, process: Process, level: str, limits: Limits, group: Cgroup | None = None) -> None:
        self.level = level
        self._process = process
        self._limits = limits
        self._group = group
        self.pid = process.pid
        self._cpu_before_s = self._starved_before_s = 0.0
        self._usage = Usage(0.0, 0.0, 0)
        self._argument: Any = None
        self._source = ""
        self._end: Stopped | None = None

    def call(self, argument: object) -> Answer:
        """Returns what `solve` gives for an argument.

        Raises:
            Stopped: There is no answer. After an exception in `solve`, or an answer that cannot be encoded, a further
                call is tried; after all else the box gives the same reason again.
        """
        self._argument = argument
        return self._answer(self._ask("call", _encoded(argument))[0])

    def call_again(self) -> Answer:
        """Returns what `solve` gives for the very object of the last call, as that call left it."""
        return self._answer(self._ask("again")[0])

    def call_twice(self, argument: object) -> tuple[Answer, Answer]:
        """Returns what `call` and then `call_again` give, in one exchange with the box."""
        self._argument = argument
        second = _new_number()
        once, again = self._ask("twice", pack(argument), second, and_for=[second])
        first = self._answer(once)
        # Nearly all candidates give the same again; as text, for True and 1 are equal.
        is_same = again[2:3] == [None] and repr(again) == repr(once)
        return first, first if is_same else self._answer(again)

    @property
    def usage(self) -> Usage:
        """What the candidate has used so far."""
        self._measure()
        return self._usage

    def make_ready(self, candidate: str, program: bytes | None) -> None:
        """Gives the process its program.

        Args:
            candidate: Its text, of which nothing runs yet.
            program: The filter of system calls to be put on, if any.

        Raises:
            NotStarted: The process does not come so far; the candidate has no part in it.
        """
        number = _new_number()
        lines = first_line() + write_line([number, *setup(candidate, self._limits, program)])
        try:
            answer = self._process.exchange(lines, most_bytes=_READY_BYTES, wall_s=_START_S, starved_s=float)
        except (Ended, Stopped):
            answer = b""
        if answer != write_line([number, "ready"]).rstrip():
            raise NotStarted(self._process.complaint() or "it did not start, without a word")
        if self._group:
            self._group.shut()
        _, *inner = chain(self._process.pid)
        self._process.await_too(inner)
        self.pid = inner[-1] if inner else self._process.pid
        self._process.waited_s = 0.0
        self._starved_before_s = starved_s(self.pid)
        self._measure()
        self._cpu_before_s = self._usage.cpu_s
        self._usage = replace(self._usage, cpu_s=0.0, wall_s=0.0)

    def load(self, source: str) -> None:
        """Loads the candidate.

        Raises:
            Stopped: It has no `solve` that could be called.
        """
        self._source = source
        if self._ask(source) != [["loaded"]]:
            raise self._ended(Stopped("malformed", _OUT_OF_TURN))

    def close(self) -> None:
        """Ends everything that runs in the box, and leaves nothing of it."""
        self._measure()
        self._process.end()
        if self._group:
            self._group.close()
            self._group = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, tree: list[Any]) -> Answer:
        """Reads an answer; where the argument is as it was last told, it is the same object."""
        try:
            word, value, after, kept = tree
            if after is not None:
                self._argument = decode(after)
            answer = Answer(decode(value), self._argument, kept is True)
        except ValueError:
            raise self._ended(Stopped("malformed", _OUT_OF_TURN)) from None
        if word != "value":
            raise self._ended(Stopped("malformed", _OUT_OF_TURN))
        return answer

    def _ask(self, *request: Any, and_for: Sequence[str] = ()) -> list[list[Any]]:
        """Writes a request under a new number, and returns what is written for it, and for further numbers, in turn."""
        if self._end:
            raise self._end
        number = _new_number()
        trees = [self._read(write_line([number, *request]), number)]
        trees += [self._read(b"", further) for further in and_for]
        for tree in trees:
            if tree[:1] == ["stop"]:
                raise reason_for(tree[1:], self._limits, self._source)
        return trees

    def _read(self, lines: bytes, number: str) -> list[Any]:
        """Writes lines and returns what is written for one number."""
        try:
            line = self._process.exchange(
                lines,
                most_bytes=self._limits.output_bytes,
                wall_s=self._limits.wall_s,
                starved_s=lambda: starved_s(self.pid) - self._starved_before_s,
            )
            answered, *tree = read_line(line)
        except Ended:
            raise self._ended(self._reason_of_end()) from None
        except Stopped as stopped:
            raise self._ended(stopped) from None
        except (ValueError, TypeError):
            raise self._ended(Stopped("malformed", _OUT_OF_TURN)) from None
        if answered != number:
            raise self._ended(Stopped("malformed", _OUT_OF_TURN))
        return list(tree)

    def _reason_of_end(self) -> Stopped:
        out_of_memory = self._group is not None and self._group.was_out_of_memory()
        return reason_of_end(self._process.exit_code(), self.level, self._limits, out_of_memory=out_of_memory)

    def _ended(self, stopped: Stopped) -> Stopped:
        """Returns why there is no answer, and gives the same reason from now on."""
        self._measure()
        if stopped.reason == reason_of_cpu(self._limits).reason:
            self._usage = replace(self._usage, cpu_s=max(self._usage.cpu_s, self._limits.cpu_s - self._cpu_before_s))
        self._end = stopped
        return stopped

    def _measure(self) -> None:
        """Reads what was used; what has ended can be measured no more, except in a cgroup."""
        cpu_s, memory_bytes = measure(self.pid)
        if self._group:
            cpu_s, memory_bytes = self._group.cpu_s(), max(memory_bytes, self._group.peak_bytes())
        self._usage = Usage(
            max(self._usage.cpu_s, cpu_s - self._cpu_before_s),
            self._process.waited_s,
            max(self._usage.memory_bytes, memory_bytes),
        )


def _new_number() -> str:
    return os.urandom(16).hex()


def _encoded(argument: object) -> Any:
    try:
        return encode(argument)
    except WireError as error:
        raise Stopped("judge-error", f"the input of this fixture cannot enter the box ({error})") from error
