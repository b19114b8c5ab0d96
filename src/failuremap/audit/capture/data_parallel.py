"""Notes how forwards go through DistributedDataParallel: a forward arms the reducer, or does not, for its backward."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch

from failuremap.audit.capture.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Watches DDP's forward and the communication hooks that are registered."""
    if not torch.distributed.is_available():
        return
    from torch.nn.parallel import DistributedDataParallel

    _watch_forward(recorder, DistributedDataParallel)
    _watch_hooks(recorder, DistributedDataParallel)


def _watch_forward(recorder: Recorder, wrapper: Any) -> None:
    original = wrapper._pre_forward

    @functools.wraps(original)
    def pre_forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling() and torch.is_grad_enabled():
            recorder.ddp_forwards.append((weakref.ref(self), bool(self.require_backward_grad_sync)))
        return original(self, *inputs, **kwargs)

    wrapper._pre_forward = pre_forward


def _watch_hooks(recorder: Recorder, wrapper: Any) -> None:
    original = wrapper.register_comm_hook

    @functools.wraps(original)
    def register_comm_hook(self: Any, state: object, hook: Any) -> None:
        original(self, state, hook)
        recorder.comm_hooks.append(str(getattr(hook, "__qualname__", type(hook).__name__)))

    wrapper.register_comm_hook = register_comm_hook


def path_of(recorder: Recorder) -> dict[str, Any]:
    """How the forward went through DistributedDataParallel, and whether backward is told to synchronise."""
    wrappers = recorder.modules.data_parallel()
    if not wrappers:
        return {}
    called = [wrapper for wrapper in (ref() for ref, _ in recorder.ddp_forwards) if wrapper is not None]
    return {
        "wrappers": len(wrappers),
        "forwards": len(recorder.ddp_forwards),
        "armed": sum(armed for _, armed in recorder.ddp_forwards),
        "synchronising": any(bool(wrapper.require_backward_grad_sync) for wrapper in called or wrappers),
        "hooks": recorder.comm_hooks,
    }
