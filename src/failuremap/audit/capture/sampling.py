"""Which windows are read in full, and of which parameters the others are read: decided alike on every rank, unasked.

    in full   every parameter that gets a gradient; the first windows, then two in a row of every so many
    in part   a few small parameters, spread over the model; in these windows the rest says nothing

Losses, counts, clips, learning rates and collectives are written down in every window. A window that turns out to be
short, or uneven, is known as such at its step, and has its coefficients on those few parameters at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from failuremap.audit.capture.watching import Watched

EVERY = 64
"""Windows of which two are read in full, unless told otherwise."""

FIRST = 8
"""Windows at the start that are read in full, and again where an optimizer or a parameter is new."""

# what a window still carries of the one before shows only if both were read
_IN_A_ROW = 2
# parameters of one optimizer that are read in every window, and of all optimizers together
_CHOSEN = 4
_CHOSEN_IN_ALL = 16
# elements beyond which a parameter is chosen only where there is no smaller one
_SMALL = 1 << 16
# a job whose parameters come and go is read in full a few times more, not for ever
_RESTARTS = 8


@dataclass
class Stepper:
    """What is remembered of one optimizer."""

    number: int
    """In the order of the optimizers' first steps."""
    count: int = 0
    """Steps that it has made."""
    backward_count: int = 0
    """Backward passes that had begun when it stepped last."""
    unread: int = 0
    """Passes that reached no chosen parameter, when it stepped last."""


class Sampling:
    """Whether the running window is read in full or in part, and what is chosen where it is in part.

    Args:
        every: Two windows of so many are read in full, and the first few; 1 or 2: all of them.
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self.in_part = False
        self.unread = 0
        self._window = 0
        self._full_until = FIRST
        self._restarts = 0
        self._last_in_part = -1
        self._chosen: dict[int, list[Watched]] = {}

    def begin(self, window: int) -> None:
        """Decides how the window that begins is read; `window`: steps that were made before."""
        self._window = window
        self.in_part = window >= self._full_until and window % self.every >= _IN_A_ROW

    def restart(self, *, new: bool) -> None:
        """Reads the next windows in full.

        Args:
            new: Whether something stepped that no window has shown yet; else a chosen parameter stayed away, for which
                it is done a few times only.
        """
        self._restarts += not new
        if new or self._restarts <= _RESTARTS:
            self._full_until = self._window + 1 + FIRST

    def note_pass(self, backward: int) -> None:
        """Notes the number of a backward pass that begins."""
        if self.in_part:
            self._last_in_part = backward

    def is_in_part(self, stepper: Stepper) -> bool:
        """Whether any pass since the last step of an optimizer, or its step, is read in part."""
        return self.in_part or self._last_in_part >= stepper.backward_count

    def choose(self, optimizer: int, stepped: Sequence[Watched]) -> None:
        """Keeps the chosen parameters of an optimizer that it still steps on, and fills their number up."""
        before = self._chosen.get(optimizer, [])
        kept = [watched for watched in before if watched in stepped]
        for watched in before:
            watched.chosen = watched in kept
        others = sum(len(chosen) for number, chosen in self._chosen.items() if number != optimizer)
        free = min(_CHOSEN, _CHOSEN_IN_ALL - others) - len(kept)
        added = _spread([watched for watched in stepped if not watched.chosen], free)
        for watched in added:
            watched.chosen = True
        self._chosen[optimizer] = kept + added

    def chosen(self, optimizer: int) -> list[Watched]:
        """The parameters of an optimizer that are read in every window."""
        return self._chosen.get(optimizer, [])


def _spread(candidates: Sequence[Watched], count: int) -> list[Watched]:
    """So many of the candidates: small ones, from all over the model."""
    if count <= 0 or not candidates:
        return []
    small = [watched for watched in candidates if watched.sketch.size <= _SMALL and not watched.sparse]
    ordered = small if len(small) >= count else sorted(candidates, key=lambda watched: watched.sketch.size)[:count]
    count = min(count, len(ordered))
    return [
        max(ordered[len(ordered) * at // count : len(ordered) * (at + 1) // count], key=_numbers) for at in range(count)
    ]


def _numbers(watched: Watched) -> tuple[int, int]:
    """More numbers in the sketch first, fewer elements to read among equals."""
    return watched.sketch.row_count, -watched.sketch.size
