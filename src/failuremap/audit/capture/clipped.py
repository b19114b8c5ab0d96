"""Which parameters a clip is of, where it is not of all: a script may clip modules, or models, each by its own norm."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from failuremap.audit.capture.recorder import Recorder


def some_of(recorder: Recorder, tensors: Sequence[Tensor]) -> list[int] | None:
    """The parameters of a clip, as their numbers in the trace; None where it is of all that have a gradient.

    It is None, too, where some tensor is no parameter that is watched: it may stand for any of them.
    """
    having = [tensor for tensor in tensors if tensor.grad is not None]
    found = [recorder.by_tensor.get(tensor) for tensor in having]
    known = {watched.id for watched in found if watched is not None}
    others = (w.tensor() for w in recorder.watched if w.id not in known)
    if None in found or not any(other is not None and other.grad is not None for other in others):
        return None
    return sorted(id for id in known if recorder.watched[id].chosen or not recorder.sampling.in_part)
