"""The highest level at which a box opens here."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable

from failuremap.errors import InvalidArgument
from failuremap.score.box import bubblewrap, cgroup, interpreter, seccomp, unshare
from failuremap.score.box.box import Box, NotStarted
from failuremap.score.box.process import Process
from failuremap.score.box.program import python_command
from failuremap.score.limits import Limits
from failuremap.score.stopped import Stopped

LEVELS = ("box-3", "box-2", "box-1", "none")
"""Highest first; what each is, the package says."""
SOUND_LEVELS = LEVELS[:2]
_ANY = b"def solve(argument): return argument"


def open_box(candidate: bytes, limits: Limits, *, level: str | None = None, trust_candidate: bool = False) -> Box:
    """Starts a box and loads a candidate in it.

    A box lives no longer than the thread that opened it.

    Args:
        candidate: The text of a Python file that defines `solve(argument)`, in UTF-8.
        limits: What it may use.
        level: One of `LEVELS`; without it, the highest that opens here, and no lower than a sound one.
        trust_candidate: Without a `level`, take one that is not sound where no sound one opens.

    Raises:
        Stopped: The candidate cannot be loaded; or no such box opens here (`judge-error`).

    Example:
        >>> with open_box(b"def solve(rows): return sum(rows)", Limits(), level="none") as box:
        ...     box.call([1, 2, 0.5])
        Answer(value=3.5, argument_after=[1, 2, 0.5])
    """
    if level is not None and level not in LEVELS:
        raise InvalidArgument(f"level={level!r} is none of {', '.join(LEVELS)}")
    text = _text_of(candidate, limits)
    tried = [level] if level else LEVELS if trust_candidate else SOUND_LEVELS
    box = _first_that_opens(tried, text, limits)
    try:
        box.load(text)
    except BaseException:
        box.close()
        raise
    return box


@functools.cache
def sound_level() -> str | None:
    """Returns the highest sound level that opens here, or None."""
    try:
        with open_box(_ANY, Limits()) as box:
            return box.level
    except Stopped:
        return None


def _text_of(candidate: bytes, limits: Limits) -> str:
    if len(candidate) > limits.source_bytes:
        reason = f"the candidate has {len(candidate)} bytes; at most source_bytes={limits.source_bytes} are judged"
        raise Stopped("malformed", reason)
    try:
        return candidate.decode().removeprefix("\ufeff")  # some editors begin a file so, and Python takes it
    except UnicodeDecodeError as error:
        raise Stopped("malformed", f"the candidate is not UTF-8: its byte {error.start} is none") from None


def _first_that_opens(levels: Iterable[str], text: str, limits: Limits) -> Box:
    """Returns a box that is ready for the candidate."""
    obstacles = []
    for level in levels:
        try:
            return _ready(level, text, limits)
        except NotStarted as obstacle:
            obstacles.append(f"{level}: {obstacle}")
    raise Stopped("judge-error", f"no box opens here that is sound enough ({'; '.join(obstacles)})")


def _ready(level: str, text: str, limits: Limits) -> Box:
    machine = seccomp.this_machine()
    if obstacle := _obstacle(level, machine):
        raise NotStarted(obstacle)
    program = seccomp.allowing_filter(machine) if machine and level != "none" else None
    with contextlib.ExitStack() as undo:
        group = None
        if level == "box-3":
            if (group := cgroup.make(limits)) is None:
                raise NotStarted("this user may make no cgroup that limits memory and processes")
            undo.callback(group.close)
        box = Box(_start(level, limits, machine, group), level, limits, group)
        undo.callback(box.close)
        box.make_ready(text, program)
        undo.pop_all()
    return box


def _obstacle(level: str, machine: str | None) -> str | None:
    """Says what a level lacks here, as far as it is known without trying."""
    if level == "none":
        return None
    if level == "box-1":
        return unshare.missing() or interpreter.unreadable()
    if machine is None:
        return "system calls can be filtered on Linux on x86_64 and aarch64 only"
    return bubblewrap.missing() or interpreter.unreadable()


def _start(level: str, limits: Limits, machine: str | None, group: cgroup.Cgroup | None) -> Process:
    """Starts the outermost process of a box."""
    if level == "none":
        return Process(python_command(interpreter.real_python()))
    if level == "box-1":
        return Process(unshare.command())
    assert machine
    with open(os.memfd_create("filter"), "w+b", buffering=0) as file:
        file.write(seccomp.denying_filter(machine))
        file.seek(0)
        command = bubblewrap.command(limits, file.fileno())
        return Process(group.entering(command) if group else command, pass_fds=[file.fileno()])
