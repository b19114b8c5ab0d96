"""The highest level at which a box opens here."""

from __future__ import annotations

import sys

from failuremap.errors import InvalidArgument
from failuremap.score.box import bubblewrap
from failuremap.score.box.box import Box, NotStarted
from failuremap.score.box.process import Process
from failuremap.score.box.program import python_command
from failuremap.score.limits import Limits
from failuremap.score.stopped import Stopped

LEVELS = ("box-3", "box-2", "box-1", "none")
SOUND_LEVELS = ("box-3", "box-2")


def open_box(candidate: bytes, limits: Limits, *, level: str | None = None) -> Box:
    """Starts a box and loads a candidate in it.

    Args:
        candidate: The text of a Python file that defines `solve(argument)`, in UTF-8.
        limits: What it may use.
        level: One of `LEVELS`; without it, the highest sound one that opens here.

    Raises:
        Stopped: The candidate cannot be loaded, or no box opens here (`judge-error`).

    Example:
        >>> with open_box(b"def solve(rows): return sum(rows)", Limits()) as box:
        ...     box.call([1, 2, 0.5])
        Answer(value=3.5, argument_after=[1, 2, 0.5])
    """
    if level is not None and level not in LEVELS:
        raise InvalidArgument(f"level={level!r} is none of {', '.join(LEVELS)}")
    text = _text_of(candidate, limits)
    for tried in [level] if level else SOUND_LEVELS:
        try:
            return _opened(text, limits, tried)
        except NotStarted:
            continue
    raise Stopped("judge-error", "no sound box opens on this machine; install bubblewrap (apt install bubblewrap)")


def sound_level() -> str | None:
    """Returns the highest sound level that opens here, or None."""
    try:
        with open_box(b"def solve(argument): return argument", Limits()) as box:
            return box.level
    except Stopped:
        return None


def _text_of(candidate: bytes, limits: Limits) -> str:
    if len(candidate) > limits.source_bytes:
        raise Stopped(
            "malformed", f"the candidate has {len(candidate)} bytes; at most source_bytes={limits.source_bytes}"
        )
    try:
        return candidate.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Stopped("malformed", f"the candidate is not UTF-8: byte {error.start}") from None


def _opened(text: str, limits: Limits, level: str) -> Box:
    if level in ("box-3", "box-1"):
        raise NotStarted
    if level == "box-2":
        if not (bwrap := bubblewrap.find()):
            raise NotStarted
        command = bubblewrap.command(bwrap, limits)
    else:
        command = python_command(sys.executable)
    box = Box(Process(command), level, limits)
    try:
        box.make_ready(text)
        box.load(text)
    except BaseException:
        box.close()
        raise
    return box
