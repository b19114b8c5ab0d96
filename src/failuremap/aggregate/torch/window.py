"""A window: the micro-batches between two steps, and what is known of them on this rank."""

from __future__ import annotations

from dataclasses import dataclass, field

from failuremap.aggregate.torch.ranks import Message, Notice


@dataclass
class Window:
    """What the open window holds.

    Attributes:
        exponent: Gradients are weighed by count / 2**exponent, which keeps them near the size of a mean.
        count: Units of the whole window.
        pending: Units whose gradient has not been reduced yet.
        unreduced_count: Micro-batches whose gradient has not been reduced yet.
        notice: What this rank has to tell the others.
        reason: Why a backward failed here.
        messages: What the ranks told each other, one for each reduction.
    """

    exponent: int = 0
    count: int = 0
    pending: int = 0
    unreduced_count: int = 0
    notice: Notice = Notice.NONE
    reason: str = ""
    messages: list[Message] = field(default_factory=list)

    def add(self, count: int) -> None:
        """Counts a micro-batch whose backward is about to run."""
        self.count += count
        self.pending += count
        self.unreduced_count += 1

    def take(self) -> int:
        """Returns the units that this reduction brings; none is pending after."""
        count, self.pending, self.unreduced_count = self.pending, 0, 0
        return count
