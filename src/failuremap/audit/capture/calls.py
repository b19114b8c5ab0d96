"""Counts the collectives of a window: calls that are alike are one entry, with a few integers for each of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from failuremap.audit.capture.received import Received

# calls of one entry whose memory is remembered; the others are counted only
_SPAN_LIMIT = 10_000
_ERROR_LIMIT = 3

Span = tuple[int, int, int]
"""Addresses of the first byte and of the one after the last, and the number of elements."""


class Alike(NamedTuple):
    """What calls have in common that are counted together."""

    function: str
    op: str
    group: tuple[int, ...]
    """The ranks that it is called on."""
    backward_count: int
    """Backward passes that had ended before."""
    in_backward: bool
    by: str
    """The autograd function that calls it; '' where none does."""
    own: bool
    """Whether the script calls it, and not torch."""
    site: str
    carries_gradient: bool
    """Whether a tensor goes in whose gradient autograd follows up to there, and no further."""
    rows: int
    """Rows that come together, where they come without a gradient; else 0."""
    cut_off: bool = False
    """Whether these rows are of a tensor with a gradient, which is gathered under no_grad."""


@dataclass
class Entry:
    """Calls that are alike, until the next step."""

    alike: Alike
    count: int = 0
    elements: int = 0
    spans: list[Span] = field(default_factory=list)
    waiting: int = 0
    errors: list[str] = field(default_factory=list)
    sent: list[Tensor] = field(default_factory=list)
    """Numbers by which what is sent is known again, where another rank may go backward from it."""
    gradients: list[Tensor] = field(default_factory=list)
    """Those of them whose tensor is the gradient of one that was received."""

    def fields(self, backward_count: int, gradients: Gradients) -> dict[str, Any]:
        """The entry as a trace holds it; what is empty is left out."""
        alike = self.alike
        met = [(gradients.at(start, stop), elements) for start, stop, elements in self.written(backward_count)]
        optional = {
            "op": alike.op, "by": alike.by, "carries_gradient": alike.carries_gradient,
            "rows": alike.rows, "cut_off": alike.cut_off, "waiting": self.waiting, "errors": self.errors,
            "parameters": sorted({id for ids, _ in met for id in ids}),
            "other_elements": sum(elements for ids, elements in met if not ids),
            "sent": [number.item() for number in self.sent], "passes": alike.backward_count if self.sent else 0,
            "gradients": [number.item() for number in self.gradients],
        }  # fmt: skip
        common = {"function": alike.function, "when": self._when(backward_count), "own": alike.own, "site": alike.site}
        told = {key: value for key, value in optional.items() if value}
        return {**common, "calls": self.count, "elements": self.elements, **told}

    def _when(self, backward_count: int) -> str:
        if self.alike.in_backward:
            return "backward"
        return "after" if self.alike.backward_count == backward_count else "before"

    def written(self, backward_count: int) -> list[Span]:
        """What the calls after the last backward wrote to; before it memory comes and goes, and tells nothing."""
        return self.spans if self._when(backward_count) == "after" else []


class Gradients:
    """Where the gradients lie in memory."""

    def __init__(self, spans: Sequence[tuple[int, int, int]]) -> None:
        self._spans = sorted(spans)
        self._starts = [start for start, _, _ in self._spans]

    def at(self, start: int, stop: int) -> list[int]:
        """The parameters whose gradient lies there, in part at least."""
        first, last = bisect_right(self._starts, start), bisect_left(self._starts, stop)
        before = self._spans[max(first - 1, 0) : first]
        return [id for _, end, id in [*before, *self._spans[first:last]] if end > start]


class Calls:
    """All collectives that were called since the last step."""

    def __init__(self) -> None:
        self.entries: dict[Alike, Entry] = {}
        self.received = Received()
        self.handles: dict[int, Entry] = {}
        """By the identity of the handle of an asynchronous call that nobody has waited for."""
        self.groups: dict[tuple[int, ...], int] = {}
        """The number of each group of ranks in the trace."""

    def add(self, alike: Alike, elements: int, spans: Sequence[Span]) -> Entry:
        """Counts a call."""
        entry = self.entries.get(alike)
        if entry is None:
            entry = self.entries[alike] = Entry(alike)
        entry.count += 1
        entry.elements += elements
        if len(entry.spans) < _SPAN_LIMIT:
            entry.spans += spans
        return entry

    def failed(self, entry: Entry | None, error: BaseException) -> None:
        """Notes that a call raised."""
        if entry is not None and len(entry.errors) < _ERROR_LIMIT:
            entry.errors.append(f"{type(error).__name__}: {error}"[:200])

    def started(self, entry: Entry | None, handle: object) -> None:
        """Notes that a call goes on behind the script's back; the handle itself is not kept."""
        if entry is not None:
            entry.waiting += 1
            self.handles[id(handle)] = entry

    def awaited(self, handle: object) -> None:
        """Notes that the script has asked a handle for its end."""
        entry = self.handles.pop(id(handle), None)
        if entry is not None:
            entry.waiting -= 1

    def taken(self) -> list[Entry]:
        """The entries since the last step; counting starts anew."""
        entries = list(self.entries.values())
        self.entries, self.handles = {}, {}
        self.received.clear()
        return entries
