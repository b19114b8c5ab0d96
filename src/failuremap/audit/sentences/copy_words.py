"""The sentences of a verdict on copies that an optimizer steps on in place of the model's parameters."""

from __future__ import annotations

from collections.abc import Sequence

from failuremap.audit.sentences import words
from failuremap.audit.steps.story import Part


def unmeasured(parts: Sequence[Part]) -> list[str]:
    """Why a step was not measured for its copies; [] where they are known."""
    found = []
    if most := max((part.beside.unmatched for part in parts), default=0):
        found.append(unmatched(most))
    if names := sorted({name for part in parts for name in part.beside.unlike}):
        found.append(unlike(names))
    return found


def by_order(names: Sequence[str]) -> str:
    """Copies that equal several parameters, and whose updates are none of those that their order gives."""
    return (
        f"which of several equal parameters the copies stand for that the optimizer steps on ({words.listed(names)}) "
        "cannot be told: their updates are no combination of the gradients of those that stand at their place in the "
        "model's order"
    )


def unmatched(count: int) -> str:
    """Tensors of an optimizer that may be copies of anything."""
    which = "1 tensor that is" if count == 1 else f"{count} tensors that are"
    return (
        f"the optimizer steps on {which} no parameter of the model, as where copies in float32 are stepped on, and "
        "which parameters they stand for cannot be told: each has to equal one parameter, or several in a row, and no "
        "two the same one, when it is stepped on"
    )


def unlike(names: Sequence[str]) -> str:
    """Copies that have gone other ways than the parameters."""
    return (
        f"the optimizer steps on copies of {words.listed(names)} that no longer equal the model's own: what the model "
        "trains was not measured; copy the weights back before the next step"
    )
