"""What is wrong with a record that can be read: the reader names the record in a TraceError."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LOSS_FIELDS = frozenset(("function", "reduction", "count", "scale", "site"))


def check_size(payload: NDArray[np.float32], size: int) -> None:
    """Checks the length of a payload against what the record's parameters have."""
    if len(payload) != size:
        raise ValueError(f"{len(payload)} numbers, its parameters have {size}")


def check_losses(losses: list[dict[str, Any]]) -> None:
    """Checks that each loss says what it must, in numbers."""
    for loss in losses:
        if absent := _LOSS_FIELDS - set(loss):
            raise ValueError(f"a loss without {', '.join(sorted(absent))}")
        _ = float(loss["count"]), float(loss["scale"] or 0)
