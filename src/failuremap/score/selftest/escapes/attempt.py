"""An escape tried at one level, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from failuremap.score.box import Box, open_box
from failuremap.score.limits import Limits
from failuremap.score.selftest.escapes.escape import OUT, Escape
from failuremap.score.selftest.escapes.host import Host
from failuremap.score.selftest.escapes.remains import Remains
from failuremap.score.stopped import Stopped

LIMITS = Limits(cpu_s=1)
_SCALARS = {bool, int, float, str, Fraction, type(None)}


@dataclass(frozen=True)
class Attempt:
    """What came of an escape."""

    escape: Escape
    level: str
    got_out: str | None
    """How it is known that it got out; None where it did not."""
    reason: str
    """What the box said in the end."""


def attempt(escape: Escape, level: str, limits: Limits = LIMITS) -> Attempt:
    """Runs an escape in a box of this level, and looks at the host afterwards."""
    with Host() as host:
        seen, reason = _run(escape, level, limits, host)
        found = [*seen, host.touched()]
        return Attempt(escape, level, next((each for each in found if each), None), reason)


def _run(escape: Escape, level: str, limits: Limits, host: Host) -> tuple[list[str | None], str]:
    """Returns what was seen of it while it ran and just after, and what the box said."""
    seen: list[str | None] = []
    remains = Remains()
    reason = "answered"
    try:
        with open_box(escape.source.encode(), limits, level=level) as box:
            try:
                _ask(box, host, seen)
            finally:
                remains.note(box.pid)
                used_s = box.usage.cpu_s
                seen.append(f"it ran for {used_s:.1f} s" if used_s > limits.cpu_s + 1 else None)
    except Stopped as stopped:
        reason = f"{stopped.outcome}: {stopped.reason}"
        seen.append(host.secret_in(reason))
        seen.append("the judge takes the blame" if stopped.outcome == "judge-error" else None)
    seen.append(remains.running())
    return seen, reason


def _ask(box: Box, host: Host, seen: list[str | None]) -> None:
    """Calls the candidate twice and looks at what it answers."""
    for answer in (box.call(host.argument), box.call_again()):
        parts = list(_parts([answer.value, answer.argument_after]))
        seen.append("it says so" if OUT in [part for part in parts if type(part) is str] else None)
        seen.append(host.secret_in(repr(answer.value), but="seen"))
        strange = [part for part in parts if type(part) not in _SCALARS]
        seen.append("its answer has behaviour of its own" if strange else None)


def _parts(value: Any) -> Iterator[Any]:
    """Yields whatever is in a value that is no exact list, tuple or dict."""
    if type(value) in (list, tuple):
        for part in value:
            yield from _parts(part)
    elif type(value) is dict:
        yield from _parts([*value.keys(), *value.values()])
    else:
        yield value
