"""Watches the functional collectives, through which a script passes activations: torch has the backward of each."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from failuremap.audit.capture.callers import caller_of
from failuremap.audit.capture.calls import Alike
from failuremap.audit.capture.collectives import replace
from failuremap.audit.capture.recorder import Recorder

# the place of the group among the arguments, and what torch's own function of autograd for it is called
_COLLECTIVES = {
    "all_reduce": (2, "_AllReduce"),
    "all_gather_single": (2, "_AllGather"),
    "all_gather_tensor": (2, "_AllGather"),
    "reduce_scatter_single": (3, "_Reduce_Scatter"),
    "reduce_scatter_tensor": (3, "_Reduce_Scatter"),
    "all_to_all_single": (3, "_AlltoAllSingle"),
}
_TORCH = os.path.dirname(torch.__file__)
_HERE = os.path.join(_TORCH, "distributed", "_functional_collectives.py")


def install(recorder: Recorder) -> None:
    """Watches what the script calls of torch.distributed._functional_collectives."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import _functional_collectives as functional

    for name in _COLLECTIVES:
        original = getattr(functional, name, None)
        if original is not None:
            replace(functional, name, _watching(recorder, name, original))


def _watching(recorder: Recorder, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if not torch.compiler.is_compiling() and recorder.active and getattr(result, "requires_grad", False):
            _note(recorder, name, args, kwargs, sys._getframe(1))
        return result

    return collective


def _note(recorder: Recorder, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> None:
    """Counts a call of the script's whose result autograd follows."""
    try:
        caller = frame if frame.f_code.co_filename != _HERE else frame.f_back
        if caller is None or caller.f_code.co_filename.startswith(_TORCH):
            return
        place, by = _COLLECTIVES[name]
        sent = args[0] if args else kwargs["self"]
        ranks = _ranks(args[place] if len(args) > place else kwargs["group"])
        site = caller_of(caller).site
        alike = Alike(name, "", ranks, recorder.backward_count, False, by, False, site, False, 0)
        recorder.calls.add(alike, sent.numel() if isinstance(sent, Tensor) else 0, [])
    except Exception as error:
        recorder.note_error("collective", error)


def _ranks(group: Any) -> tuple[int, ...]:
    """The ranks of a group that is given as such, by name, or as a mesh, alone or with one of its dimensions."""
    if isinstance(group, tuple):
        mesh, dimension = group
        group = mesh.get_group(dimension)
    elif hasattr(group, "get_group"):
        group = group.get_group()
    elif isinstance(group, str):
        group = torch.distributed.distributed_c10d._resolve_process_group(group)  # type: ignore[attr-defined, arg-type]
    elif isinstance(group, list):
        return tuple(group)
    return tuple(torch.distributed.get_process_group_ranks(group))
