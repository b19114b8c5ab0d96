"""What is known of the factors on the way to a loss, and inside the function that makes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# relative difference up to which factors are the same
_ALIKE = 0.01


def hides_a_factor(loss: dict[str, Any]) -> bool:
    """Whether the gradient at the logits may hold a factor beside the weight, as a temperature in the function is."""
    return bool(loss.get("hidden_in", "Softmax") != "Softmax")


def is_unmoved(loss: dict[str, Any]) -> bool:
    """Whether each unit weighs in a hidden function as if 1 had reached it, and something else did."""
    if "arrived" not in loss or not loss["nonzero"] or abs(loss["arrived"] - 1) <= _ALIKE:
        return False
    weights = (loss["scale"] / loss["nonzero"], loss["scale"])
    return any(abs(weight - 1) <= _ALIKE / 10 for weight in weights)


def multiplied_by(losses: Iterable[dict[str, Any]]) -> float | None:
    """The number that the script multiplies all of these losses by; None where it learns it, 1 where they differ."""
    found = {loss.get("times", 1.0) for loss in losses if loss["count"]}
    return found.pop() if len(found) == 1 else 1.0
