"""Losses of one line that choose from other numbers of classes in other passes: one loss, or one for each head.

The classes of one loss go with the batch where they are its own rows (contrastive losses) or the positions of a padded
sequence (the start and the end of an answer). Heads have parameters of their own.

Legend: K contributions, P parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Groups = dict[tuple[Any, ...], dict[int, list[dict[str, Any]]]]
"""(function, classes, place) -> contribution -> the losses called there."""


def joined_by_line(groups: Groups, used_KP: Mask | None) -> Groups:
    """The losses, those of one line that no pass calls twice as one where no head of its own is behind each.

    Args:
        groups: The losses by function, classes and place.
        used_KP: Whether a contribution has a gradient of a parameter; None where not all of them were read.
    """
    found: Groups = {}
    for key, group in groups.items():
        same = [
            other for other in found if (other[0], other[2]) == (key[0], key[2]) and not set(found[other]) & set(group)
        ]
        line = next((other for other in same if _is_one(found[other], group, used_KP)), None)
        if line is None:
            found[key] = dict(group)
        else:
            found[line] |= group
    return found


def _is_one(some: dict[int, Any], others: dict[int, Any], used_KP: Mask | None) -> bool:
    losses = [loss for group in (some, others) for losses in group.values() for loss in losses]
    if all(float(loss["count"]) - (loss.get("classes") or 0) in (0, 1) for loss in losses):  # each row against all
        return True
    if used_KP is None:
        return False
    first_P, second_P = used_KP[list(some)].any(axis=0), used_KP[list(others)].any(axis=0)
    return not ((first_P & ~second_P).any() and (second_P & ~first_P).any())
