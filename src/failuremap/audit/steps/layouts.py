"""How several ranks hold something of one parameter together, as a trace tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from failuremap.audit.trace import of_runs


@dataclass(frozen=True, slots=True)
class Layout:
    """How several ranks hold something of one parameter together, as one of them sees it."""

    parts: tuple[int, ...]
    """Ranks whose numbers add up to the whole's."""
    mesh: tuple[int, ...]
    """All ranks that it is distributed over."""
    held: tuple[int, ...]
    """Which of the sampled elements this rank has; told of updates only."""
    span: tuple[tuple[int, int], ...]
    """For each dimension the first index of this rank's part, and the one after its last."""


def layout_of(fields: dict[str, Any], rank: int) -> Layout:
    """Reads a layout that a rank tells of."""
    parts, mesh = of_runs(fields["parts"]), of_runs(fields["mesh"])
    if rank not in parts or not set(parts) <= set(mesh):
        raise ValueError(f"parts={parts} of mesh={mesh}, without rank {rank} or outside the mesh")
    held = tuple(map(int, fields.get("held", ())))
    span = tuple((int(first), int(stop)) for first, stop in fields.get("span", ()))
    return Layout(parts, mesh, held, span)
