"""Clips of some parameters alone: taken out of the update of these, which then follows the rule of all others.

A clip that stands behind the last backward and has one norm on all ranks is one of the reduced gradient: it multiplies
the update of its parameters by one factor. Any other is left to what judges the clips of all parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from failuremap.audit.steps.story import Parameter, Part

Floats = NDArray[np.float64]

# relative difference up to which norms of one gradient are the same on two ranks
_SAME = 1e-4


def clip_of(fields: dict[str, Any], parameters: Mapping[int, Parameter], after: int) -> dict[str, Any]:
    """A clip by norm, given its record's fields and the number of the backward pass before it."""
    return {
        "norm": float(fields["norm"]),
        "limit": float(fields["limit"]),
        "after": after,
        "scale": float(fields.get("scale", 1.0)),
        "of": frozenset(parameters[id].name for id in fields["parameters"]) if "parameters" in fields else None,
    }


def unclipped(
    parts: Sequence[Part], updates_RL: Floats, place: dict[str, int], starts: NDArray[np.int64]
) -> tuple[list[Part], Floats]:
    """The parts without clips of some parameters, and the updates as they were before these."""
    late = [[clip for clip in part.clips if _is_late(clip, part)] for part in parts]
    if not late or not late[0] or not all(_alike(clips, late[0]) for clips in late):
        return list(parts), updates_RL
    factors_L = np.ones(updates_RL.shape[1])
    for clip in late[0]:
        for name in clip["of"] & place.keys():
            factors_L[starts[place[name]] : starts[place[name] + 1]] *= min(1.0, clip["limit"] / (clip["norm"] + 1e-6))
    rest = [[clip for clip in part.clips if clip not in clips] for part, clips in zip(parts, late, strict=True)]
    undone = updates_RL / np.where(factors_L > 0, factors_L, 1.0)
    return [replace(part, clips=clips) for part, clips in zip(parts, rest, strict=True)], undone


def _is_late(clip: dict[str, Any], part: Part) -> bool:
    if clip["of"] is None or clip["scale"] != 1.0:  # what still holds a GradScaler's factor is judged by its norm
        return False
    return all(clip["after"] >= backward.id for backward in part.backwards)


def _alike(clips: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> bool:
    return len(clips) == len(others) and all(
        one["of"] == other["of"] and one["limit"] == other["limit"] and _close(one["norm"], other["norm"])
        for one, other in zip(clips, others, strict=True)
    )


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME * max(one, other)
