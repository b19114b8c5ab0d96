"""Sees what DeepSpeed's engine itself makes of gradients: in stage 0 it clips, and behind its outputs it divides."""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from failuremap.audit.capture.late import after_import
from failuremap.audit.capture.optimizers import on_norm_clip
from failuremap.audit.capture.recorder import Recorder, quiet
from failuremap.audit.capture.watching import Backward

SEVERAL = "DeepSpeedEngine with several outputs"
"""What a loss is told to have gone through where the engine divides more than one gradient in a pass."""

# what a loss says of the gradient that reached it
_SCALES = frozenset(("scale", "smallest", "largest", "row_smallest", "row_largest"))


def install(recorder: Recorder) -> None:
    """Watches DeepSpeed's engine, as soon as the job imports it."""
    after_import("deepspeed.runtime.engine", functools.partial(_watch, recorder))


def _watch(recorder: Recorder, module: ModuleType) -> None:
    _watch_clip(recorder, module)
    kind = getattr(module, "DeepSpeedEngine", None)
    original = getattr(kind, "_backward_prologue_per_tensor", None)
    if kind is None or original is None:
        return
    divided = _Divided()

    @functools.wraps(original)
    def per_tensor(self: Any, gradient: Any) -> Any:
        result = original(self, gradient)
        if result is not gradient:
            on_divided(recorder, divided, float(self.gradient_accumulation_steps()))
        return result

    kind._backward_prologue_per_tensor = per_tensor


@dataclass
class _Divided:
    """The backward pass in which the engine has divided the gradient of one of its outputs."""

    backward: weakref.ref[Backward] | None = None


@quiet
def on_divided(recorder: Recorder, divided: _Divided, steps: float) -> None:
    """Divides what has reached the losses so far, as the engine has just divided what they send on into the model.

    It does so for each output of a model where `loss.backward()` is called, and not its own `backward`. Of several
    outputs in one pass nothing says which losses lie behind which: a part of their scale then counts as unseen.
    """
    backward = recorder.backward
    if backward is None or steps == 1.0:
        return
    if divided.backward is not None and divided.backward() is backward:
        backward.unseen += [] if SEVERAL in backward.unseen else [SEVERAL]
        return
    divided.backward = weakref.ref(backward)
    for loss in backward.losses:
        for name in _SCALES & loss.keys():
            loss[name] = None if loss[name] is None else loss[name] / steps


def _watch_clip(recorder: Recorder, module: ModuleType) -> None:
    original = getattr(module, "clip_grad_norm_", None)
    if original is None:
        return

    @functools.wraps(original)
    def clip_grad_norm_(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        norm = original(parameters, *args, **kwargs)
        on_norm_clip(recorder, "clip_grad_norm_", norm, args, kwargs)
        return norm

    module.clip_grad_norm_ = clip_grad_norm_  # type: ignore[attr-defined]
