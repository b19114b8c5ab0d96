"""How many parameters a step shows, and how many there are: a step that is read in part shows a few only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Extent:
    """The parameters that were read, out of all.

    Example:
        >>> Extent(125, 125).of(1), Extent(4, 125).of(1)
        ('1 of 125 parameters', '1 of the 4 parameters that were read (of 125)')
    """

    read: int
    total: int

    @property
    def is_whole(self) -> bool:
        """Whether all were read."""
        return self.read >= self.total

    def of(self, count: int) -> str:
        """So many of those that were read, in words."""
        if self.is_whole:
            return f"{count:,} of {self.read:,} parameter{'' if self.read == 1 else 's'}"
        return f"{count:,} of the {self.read:,} parameters that were read (of {self.total:,})"
