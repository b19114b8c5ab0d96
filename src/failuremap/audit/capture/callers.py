"""Who calls a loss or a collective: a line of the script, or an autograd function with a backward of its own."""

from __future__ import annotations

import functools
import os
import sys
from types import FrameType
from typing import NamedTuple

import torch

_TORCH = os.path.dirname(torch.__file__)
# fully_shard and FullyShardedDataParallel, which call many a step and never for the script
_FSDP = os.path.join(_TORCH, "distributed", "fsdp", "")
# DeepSpeed: through what it calls all collectives, its own and those of scripts, and what of it calls for itself
_PASSED_ON = tuple(os.sep.join(("", "deepspeed", part, "")) for part in ("comm", "utils"))
_RUNTIME = os.sep.join(("", "deepspeed", "runtime", ""))
_PIPELINE = os.path.join(_RUNTIME, "pipe", "")
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# torch.autograd.Function.apply, and its counterpart in backward
_APPLY = os.path.join(_TORCH, "autograd", "function.py")
# its function runs the script's own forward, and is none of its own
_CHECKPOINT = os.path.join(_TORCH, "utils", "checkpoint.py")
_DEPTH = 24
# the innermost frames of the script that tell one call of a loss from another
_PLACE_DEPTH = 3


class Caller(NamedTuple):
    """Who calls a collective."""

    by: str
    """The autograd function whose forward or backward calls it; '' where none does."""
    own: bool
    """Whether the code that calls it is the script's, or a library's, and not torch's."""
    site: str
    """The innermost line outside torch; '' where torch, or DeepSpeed, shards the parameters."""


_SHARDING = Caller("", False, "")


@functools.cache
def _is_passed_over(path: str) -> bool:
    """Whether a file is torch's, this package's, DeepSpeed's way into torch, or none."""
    return path.startswith((_TORCH, _OURS, "<")) or any(part in path for part in _PASSED_ON)


def caller_of(frame: FrameType | None) -> Caller:
    """Follows the frames from the one that calls outward; names and lines are read, never the variables."""
    if frame is not None and (frame.f_code.co_filename.startswith(_FSDP) or _is_deepspeed(frame)):
        return _SHARDING
    own = frame is not None and not frame.f_code.co_filename.startswith(_TORCH)
    site, inner = "", None
    for _ in range(_DEPTH):
        if frame is None:
            break
        code = frame.f_code
        if code.co_name == "apply" and code.co_filename == _APPLY and inner and inner.co_filename != _CHECKPOINT:
            name = inner.co_qualname.split(".")[-2:][0]
            return Caller(name, not inner.co_filename.startswith(_TORCH), site)
        if not site and not _is_passed_over(code.co_filename):
            site = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
        inner, frame = code, frame.f_back
    return Caller("", own, site)


def _is_deepspeed(frame: FrameType) -> bool:
    """Whether DeepSpeed calls for itself: for its partitions, gradients and norms, and not for a pipeline."""
    if not any(part in frame.f_code.co_filename for part in _PASSED_ON):
        return False
    found: FrameType | None = frame
    for _ in range(_DEPTH):
        if found is None or not _is_passed_over(found.f_code.co_filename):
            break
        found = found.f_back
    path = "" if found is None else found.f_code.co_filename
    return _RUNTIME in path and _PIPELINE not in path


def place_of_call() -> tuple[str, str]:
    """Where the script called what calls this: 'train.py:41' to read, and three frames to tell calls apart.

    Lines of torch and of this package are passed over.
    """
    frame: FrameType | None = sys._getframe(1)
    places: list[str] = []
    site = ""
    while frame is not None and len(places) < _PLACE_DEPTH:
        path = frame.f_code.co_filename
        if not _is_passed_over(path):
            site = site or f"{os.path.basename(path)}:{frame.f_lineno}"
            places.append(f"{os.path.basename(path)}:{frame.f_lineno}:{frame.f_lasti}")
        frame = frame.f_back
    return site, " < ".join(places)
