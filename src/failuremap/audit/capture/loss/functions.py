"""Watches autograd functions of scripts and libraries: a loss may be one, and show nowhere else."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from failuremap.audit.capture.loss import ahead, known
from failuremap.audit.capture.loss.losses import watch_call
from failuremap.audit.capture.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Wraps torch.autograd.Function.apply; what torch defines itself, and what it compiles, passes through."""
    original = vars(torch.autograd.Function)["apply"].__func__
    torch.autograd.Function.apply = classmethod(_watching(recorder, original))  # type: ignore[assignment]


def _watching(recorder: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
    no_losses: weakref.WeakSet[type] = weakref.WeakSet()

    @functools.wraps(original)
    def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
        if cls in no_losses or not recorder.active or torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return original(cls, *args, **kwargs)
        if _is_torchs(cls):
            return original(cls, *args, **kwargs)
        kept = _attempt(recorder, ahead.keep, args)
        result = original(cls, *args, **kwargs)
        if not _attempt(recorder, _note, recorder, cls, (args, kwargs), result, kept):
            no_losses.add(cls)
        return result

    return apply


def _is_torchs(function: type) -> bool:
    return function.__module__.startswith("torch.") or torch._C._are_functorch_transforms_active()


def _attempt(recorder: Recorder, act: Callable[..., Any], *args: Any) -> Any:
    try:
        with torch.no_grad():
            return act(*args)
    except Exception as error:
        recorder.note_error("on_loss", error)


def _note(
    recorder: Recorder, function: type, given: tuple[tuple[Any, ...], dict[str, Any]], result: Any, kept: Any
) -> bool:
    """Watches a loss that is known by name; of another leaves with its node what its gradient can be held against.

    Returns:
        Whether the function may be a loss, another time at least: it gives no activations.
    """
    loss = result[0] if isinstance(result, tuple) and result else result
    node = loss.grad_fn if isinstance(loss, Tensor) else None
    if node is None:
        return True
    arguments = known.arguments_of(function, *given, node)
    if arguments is not None:
        watch_call(recorder, "cross_entropy", arguments, loss)
        return True
    return (loss.numel() == 1 and kept is None) or (kept is not None and ahead.leave(node, loss, kept))
