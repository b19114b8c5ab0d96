"""What a candidate may use, and what it has used."""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 1 << 20
WALL_PER_CPU = 3
"""Wall time allowed for each second of processor time."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a candidate may use over all fixtures of one verdict together.

    Attributes:
        cpu_s: Processor time; whole seconds.
        memory_bytes: Address space.
        output_bytes: The largest answer to one fixture, as it crosses the wall of the box.
        file_bytes: The largest file, and the space of the box's only folder.
        open_file_count: Files open at one time.
        source_bytes: The candidate's text.

    Example:
        >>> Limits(cpu_s=2).wall_s
        6
    """

    cpu_s: int = 5
    memory_bytes: int = 256 * MEBIBYTE
    output_bytes: int = MEBIBYTE
    file_bytes: int = MEBIBYTE
    open_file_count: int = 16
    source_bytes: int = 64 << 10

    @property
    def wall_s(self) -> int:
        """Seconds that the judge waits for answers, all together."""
        return WALL_PER_CPU * self.cpu_s


@dataclass(frozen=True)
class Usage:
    """What a candidate has used so far."""

    cpu_s: float
    wall_s: float
    """Time that the judge has waited for answers."""
    memory_bytes: int
    """The most that was resident at one time."""
