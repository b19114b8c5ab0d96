"""The job's GradScalers: whether gradients still hold the factor of one when they are clipped."""

from __future__ import annotations

import functools
from typing import Any

import torch

from failuremap.audit.capture.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Remembers every GradScaler as it is made, those of subclasses too."""
    scaler_type: Any = torch.amp.GradScaler
    original = scaler_type.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it stands for the original
        original(self, *args, **kwargs)
        recorder.scalers.add(self)

    scaler_type.__init__ = __init__


def factor_left(recorder: Recorder) -> float:
    """Returns the factor of a scaler that has divided no optimizer's gradients since its last update; 1 without one."""
    for scaler in list(recorder.scalers):
        states = getattr(scaler, "_per_optimizer_states", None)
        if states is None or getattr(scaler, "_scale", None) is None or not scaler.is_enabled():
            continue
        if all(getattr(state.get("stage"), "name", "") == "READY" for state in list(states.values())):
            return float(scaler.get_scale())
    return 1.0
