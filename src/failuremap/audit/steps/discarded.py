"""Gradients that were cleared before a step: which of them the step owes, and which were never meant for it.

A job that clears between the micro-batches of a window loses contributions, one that clears a whole window has left a
step out. Both leave the same records at one step; the other steps of the job tell them apart:

most steps hold one run of passes   a run of that length that was cleared was a window; of any other, it can't be told
few do, or none                     what was cleared belongs to the window of the step, and is lost
otherwise                           it can't be told

Ranks that step together have windows of one length. So where another rank cleared nothing at a step for which it made
as many passes, what was cleared belongs to the window: it is lost, or had been reduced and another rank holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from failuremap.audit.steps.story import Backward, Parameter, Part, Rank

LEFT_OUT = "a whole window whose gradients were cleared, without a step on them"
UNTOLD = "gradients that were cleared before the step"


def sort_into_runs(parts: Sequence[Part], parameters: dict[int, Parameter]) -> None:
    """Sorts the passes before each step of a rank into runs: one begins where a pass finds nothing of those before.

    What a copy holds is there to be added to, or to be written over. Where most windows are one run if it is written
    over, it is; a window of several runs is then one that was skipped. Copies are known from the first step on: before,
    as many passes as a window has later are one run.

    Args:
        parts: The rank's side of all steps; each gets its runs.
        parameters: That rank's parameters, by their numbers.
    """
    for part in parts:
        part.runs = _runs(part, parameters, copies_keep=False)
    for optimizer in {part.optimizer for part in parts}:
        own = [part for part in parts if part.optimizer == optimizer]
        if 2 * sum(len(part.runs) < 2 for part in own) <= len(own):
            for part in own:
                part.runs = _runs(part, parameters, copies_keep=True)
            _join_first(own)


def _join_first(parts: Sequence[Part]) -> None:
    """Makes the first window of a job that adds up in copies one run, if it is as long as the others are."""
    first, *later = parts
    usual = Counter(len(part.runs[-1]) for part in later if part.runs).most_common(1)
    passes = [backward.id for backward in first.backwards if backward.via != "grad"]
    added_up = any(backward.kept_in_copies for part in later for backward in part.backwards)
    if added_up and usual and usual[0][0] == len(passes) and not any(backward.kept for backward in first.backwards):
        first.runs = [passes]


def _runs(part: Part, parameters: dict[int, Parameter], *, copies_keep: bool) -> list[list[int]]:
    runs: list[list[Backward]] = []
    ids = part.ids
    for backward in part.backwards:
        if backward.via in ("grad", "told"):
            continue
        touched = {id for chunk in backward.chunks for id in chunk.ids} & ids
        kept = bool(backward.kept & ids) and (copies_keep or not backward.kept_in_copies)
        cleared = bool(runs) and not kept and bool(touched & _filled(runs[-1], parameters))
        if cleared or not runs:
            runs.append([])
        runs[-1].append(backward)
    return [[backward.id for backward in run] for run in runs]


def _filled(run: Sequence[Backward], parameters: dict[int, Parameter]) -> set[int]:
    """The parameters whose .grad is not zero after these passes, by the elements that capture looks at."""
    found = set[int]()
    for chunk in (chunk for backward in run for chunk in backward.chunks):
        at = 0
        for id in chunk.ids:
            if chunk.numbers[at : at + parameters[id].coordinates].any():
                found.add(id)
            at += parameters[id].rows
    return found


class Discarded:
    """All passes of a job whose gradients were cleared before a step."""

    def __init__(self, ranks: Sequence[Rank]) -> None:
        self._live = {
            (rank.rank, backward.id)
            for rank in ranks
            for part in rank.parts
            for backward in part.backwards
            if backward.id not in part.discarded
        }
        parts = [part for rank in ranks for part in rank.parts]
        self._reasons = {part: self._explained(part) for part in parts}
        self._doubts: dict[Part, list[str]] = {}
        for optimizer in {part.optimizer for part in parts}:
            self._tell_apart([part for part in parts if part.optimizer == optimizer])

    def reasons(self, part: Part) -> dict[int, str]:
        """The passes that a step owes nothing, each with the reason."""
        return self._reasons[part]

    def doubts(self, part: Part) -> list[str]:
        """Why it cannot be told what a step owes."""
        return self._doubts.get(part, [])

    def _explained(self, part: Part) -> dict[int, str]:
        discarded = part.discarded
        kept = [backward for backward in part.backwards if backward.id not in discarded]
        gone = [backward for backward in part.backwards if backward.id in discarded]
        found = {backward.id: self._reason(part.rank, backward, kept) for backward in gone}
        return {id: reason for id, reason in found.items() if reason}

    def _reason(self, rank: int, backward: Backward, kept: Sequence[Backward]) -> str:
        """Why a step owes nothing to a pass that was cleared before it, by what is known of the two alone."""
        if (rank, backward.id) in self._live:
            return "its gradient went into another step"
        if backward.fingerprints and any(backward.fingerprints == other.fingerprints for other in kept):
            return "the same batch went through again before the step"
        if any(not np.isfinite(chunk.numbers).all() for chunk in backward.chunks):
            return "its gradient was not finite and was discarded"
        return ""

    def _tell_apart(self, parts: Sequence[Part]) -> None:
        """Compares the steps of one optimizer, on all ranks."""
        cleared = {part: self._cleared_runs(part) for part in parts}
        whole = [part for part in parts if not cleared[part]]
        window = {(part.count, len(part.runs[-1])) for part in whole if len(part.runs) == 1}
        step_count = max(Counter(part.rank for part in parts).values())
        if step_count > 1 and 3 * len(whole) <= len(parts):
            return
        lengths = Counter(len(part.runs[-1]) for part in whole if part.runs)
        usual = max(lengths, key=lambda length: (lengths[length], length), default=0)
        told = 2 * len(whole) > len(parts)
        for part in parts:
            if (part.count, sum(len(run) for run in part.runs)) in window:
                continue
            for run in cleared[part]:
                is_window = told and len(run) == usual
                self._reasons[part] |= dict.fromkeys(run, LEFT_OUT if is_window else UNTOLD)
                if not is_window:
                    self._doubts.setdefault(part, []).append(_doubt(len(run), usual if told else 0))

    def _cleared_runs(self, part: Part) -> list[list[int]]:
        """The runs that were cleared and that nothing has explained so far."""
        explained = self.reasons(part)
        return [run for run in part.runs[:-1] if not all(id in explained for id in run)]


def _doubt(size: int, usual: int) -> str:
    many = f"{size} backward passes" if size > 1 else "1 backward pass"
    if usual:
        return (
            f"the gradients of {many} were cleared before a step, where a window has {usual}: whether they are lost or "
            "were left out on purpose cannot be told"
        )
    return (
        f"the gradients of {many} were cleared before a step: whether a micro-batch is lost or a step was left out "
        "cannot be told from these steps; audit more steps"
    )
