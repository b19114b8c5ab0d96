"""Watches the parameters of `fully_shard`, whose gradients come through a tensor gathered for the pass.

The optimizer steps on a shard, a DTensor that autograd never reaches. What autograd reaches is `FSDPParam`'s gathered
parameter: its gradient, before it is reduced and scattered, is this rank's contribution.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch import Tensor

from failuremap.audit.capture.held.hooks import hook_of
from failuremap.audit.capture.late import after_import
from failuremap.audit.capture.recorder import Recorder, quiet
from failuremap.audit.capture.watching import Watched

_MODULE = "torch.distributed.fsdp._fully_shard._fsdp_param"
_WATCHED = "_failuremap_watched"
"""Where FSDPParam, which holds the gathered parameter anyway, says for which one it was watched."""


def install(recorder: Recorder) -> None:
    """Watches FSDPParam, as soon as the job imports it."""
    after_import(_MODULE, functools.partial(_watch_gathering, recorder))


def _watch_gathering(recorder: Recorder, module: ModuleType) -> None:
    original = getattr(module.FSDPParam, "init_unsharded_param", None)
    if original is None:  # another version of torch: nothing is captured, and the verdict says so
        return

    @functools.wraps(original)
    def init_unsharded_param(self: Any) -> Any:
        result = original(self)
        if not _is_known(self):
            on_gathered(recorder, self)
        return result

    module.FSDPParam.init_unsharded_param = init_unsharded_param


def _is_known(managed: Any) -> bool:
    """Whether a gathered parameter is watched already: looking that up each time would cost more than reading it."""
    gathered, watched = managed.__dict__.get(_WATCHED, (None, None))
    held = managed.__dict__
    return (
        watched is not None
        and held.get("_unsharded_param") is gathered
        and watched.tensor() is held.get("sharded_param")
    )


@quiet
def on_gathered(recorder: Recorder, managed: Any) -> None:
    """Puts the recorder's hook on a parameter that has just been gathered, if it is the first time."""
    gathered, parameter = managed._unsharded_param, managed.sharded_param
    known, watched = recorder.by_tensor.get(gathered), recorder.watch(parameter)
    if watched is None:
        return
    reference = weakref.ref(managed)
    watched.waiting = functools.partial(_waiting, reference)
    recorder.modules.stand_for(gathered, functools.partial(_shard, reference))
    recorder.by_tensor[gathered] = watched
    managed.__dict__[_WATCHED] = gathered, watched
    if known is None:
        gathered.register_hook(hook_of(recorder, _finding(recorder, reference)))


def _finding(recorder: Recorder, reference: weakref.ref[Any]) -> Callable[[], Watched | None]:
    """Finds the parameter by the shard that is there now: loading or moving a model puts new ones in."""
    last: Watched | None = None

    def find() -> Watched | None:
        nonlocal last
        parameter = getattr(reference(), "sharded_param", None)
        if last is None or parameter is None or last.tensor() is not parameter:
            last = None if parameter is None else recorder.by_tensor.get(parameter)
        return last

    return find


def _waiting(reference: weakref.ref[Any]) -> tuple[Tensor | None, ...]:
    """The gradients that are not reduced yet."""
    managed = reference()
    gathered = getattr(managed, "_unsharded_param", None)
    return getattr(managed, "unsharded_accumulated_grad", None), getattr(gathered, "grad", None)


def _shard(reference: weakref.ref[Any]) -> Tensor | None:
    """The shard that a gathered parameter is made of now."""
    return getattr(reference(), "sharded_param", None)
