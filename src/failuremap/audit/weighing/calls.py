"""One line that each pass calls several times, as heads in a loop do: the calls are parts of one loss, or terms.

Where units weigh differently inside a pass, by the call that they are in, the calls are read as terms; and believed are

    faults that all have a name                        whatever the calls are
    terms that are right, of totals that differ        as heads with weights of their own have
    terms that are right, of one total                 not: parts that are averaged one by one look alike, and are wrong
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from failuremap.audit.faults import Judged
from failuremap.audit.steps.story import Backward
from failuremap.audit.weighing.balance import TOTAL

Line = tuple[Any, Any]
"""A function, and where it is called."""


def by_call(backwards: Sequence[Backward]) -> tuple[list[Backward], list[str]]:
    """The passes with a site for each call of such lines, and these lines; ([], []) where there are none."""
    counts: dict[Line, set[int]] = {}
    for backward in backwards:
        lines = [_line(loss) for loss in backward.losses]
        for line in set(lines):
            counts.setdefault(line, set()).add(lines.count(line))
    repeated = {line: count for line, (count, *others) in counts.items() if count > 1 and not others}
    if not repeated:
        return [], []
    split = [replace(backward, losses=_numbered(backward.losses, repeated)) for backward in backwards]
    sites = {_line(loss): str(loss["site"]) for backward in backwards for loss in backward.losses}
    return split, [f"{line[0]} at {sites[line]} ({count} calls in each pass)" for line, count in repeated.items()]


def believed(found: Judged) -> bool:
    """Whether what is said of the calls as terms holds."""
    if found.doubts or found.unexplained:
        return False
    if found.faults:
        return all(fault.followed for fault in found.faults)
    totals = list(found.totals.values())
    return len(totals) > 1 and max(totals) - min(totals) > TOTAL * max(map(abs, totals))


def _line(loss: dict[str, Any]) -> Line:
    return loss["function"], loss.get("place", loss["site"])


def _numbered(losses: Sequence[dict[str, Any]], repeated: dict[Line, int]) -> list[dict[str, Any]]:
    """The losses, numbered in the order of their calls; gradients arrive in the reverse order."""
    left, found = dict(repeated), []
    for loss in losses:
        line = _line(loss)
        told = f" (call {left[line]})" if line in left else ""
        found.append({**loss, "site": f"{loss['site']}{told}", "place": f"{line[1]}{told}"} if told else loss)
        left[line] = left.get(line, 0) - 1
    return found
