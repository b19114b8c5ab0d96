"""Lines for scripts whose loss no watched function makes: what one unit is, and what a batch is.

All cost nothing and change nothing where no audit runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

L = TypeVar("L")


def unit_losses(losses: L) -> L:
    """Says that each element of `losses` is the loss of one unit, before masking and averaging; returns it unchanged.

    Args:
        losses: Tensor of any shape, one value a unit (token, example); part of what backward starts from.

    Example:
        >>> import failuremap
        >>> failuremap.unit_losses([0.5, 0.25])  # without a running audit: the same object back
        [0.5, 0.25]
    """
    _watch(losses, {"function": "unit_losses", "reduction": "none"})
    return losses


def count(units: int, loss: Any = None) -> None:
    """Says that the loss of the next backward counts `units` units.

    Args:
        units: How many units (tokens, examples) the loss sums or averages; 0 or more.
        loss: The mean itself, before it is scaled and backward starts. Without it the scale is read at the sum or mean
            that the loss goes through; where it goes through none or several, the verdict is "cannot tell".

    Example:
        >>> import failuremap
        >>> failuremap.count(164)  # without a running audit: nothing happens
    """
    if loss is not None:
        _watch(loss, {"function": "count", "reduction": "mean", "count": int(units)})
    elif (recorder := _recorder()) is not None:
        recorder.counts.append(int(units))


def batch(*data: Any) -> None:
    """Says what the next backward is made of, for the objective of `failuremap audit --reference`.

    The objective finds it in `batch.told`. Needed where the arguments of the model and the targets of torch's losses
    are not all that it asks for.

    Args:
        data: Tensors, numbers, strings, and lists, tuples and dicts of them.

    Example:
        >>> import failuremap
        >>> failuremap.batch([1, 2], "labels")  # without a running audit: nothing happens
    """
    recorder = _recorder()
    if recorder is not None and recorder.keeping is not None:
        recorder.keeping.tell(data)


def _recorder() -> Any:
    # no import: a script outside an audit must not pay for one
    capture = sys.modules.get("failuremap.audit.capture")
    return getattr(capture, "current", None)


def _watch(losses: Any, event: dict[str, Any]) -> None:
    recorder = _recorder()
    if recorder is None or not recorder.active or not getattr(losses, "requires_grad", False):
        return
    from failuremap.audit.capture.loss.graph import made_of
    from failuremap.audit.capture.loss.losses import watch_result

    watched: Tensor = losses
    if event["reduction"] == "none":
        event = {**event, "count": watched.numel()}
    parts, said = made_of(watched), watch_result(recorder, watched, event)
    for part in parts:  # what the script says of a loss goes before what is seen in it
        part.within.append(said)
