"""Watches the parameters of FullyShardedDataParallel (FSDP1), which lie one after another in a flat one.

Autograd reaches the flat parameter alone, whole and on every rank: its gradient is that of each original parameter in
turn. The optimizer steps on this rank's run of the flat one: on pieces of original parameters (`use_orig_params`),
or on the run as it is.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import unserializable_hook

from failuremap.audit.capture.held.layout import Layout
from failuremap.audit.capture.late import after_import
from failuremap.audit.capture.recorder import Recorder, quiet

_MODULE = "torch.distributed.fsdp._flat_param"


def install(recorder: Recorder) -> None:
    """Watches FlatParamHandle, as soon as the job imports it."""
    after_import(_MODULE, functools.partial(_watch_sharding, recorder))


def _watch_sharding(recorder: Recorder, module: ModuleType) -> None:
    original = getattr(module.FlatParamHandle, "shard", None)
    if original is None:  # another version of torch: nothing is captured, and the verdict says so
        return

    @functools.wraps(original)
    def shard(self: Any) -> Any:
        result = original(self)
        on_sharded(recorder, self)
        return result

    module.FlatParamHandle.shard = shard


@quiet
def on_sharded(recorder: Recorder, handle: Any) -> None:
    """Learns what this rank holds of a flat parameter that has just been sharded, and hooks on to its gradient."""
    flat, reference = handle.flat_param, weakref.ref(handle)
    waiting = functools.partial(_waiting, reference)
    if flat._params is None:
        shape = tuple(flat._unpadded_unsharded_size)
        watched = recorder.watch(flat, shape)
        if watched is not None and handle.uses_sharded_strategy:
            size = flat._sharded_size.numel()
            start = min(handle.rank * size, shape[0])
            watched.piece = _piece(handle, shape, (start, min(start + size, shape[0])))
            watched.waiting = waiting
        return
    for parameter, shape, info in zip(flat._params, flat._shapes, flat._shard_param_infos, strict=True):
        watched = recorder.watch(parameter, tuple(shape))
        if watched is not None and handle.uses_sharded_strategy:
            run = (info.intra_param_start_idx, info.intra_param_end_idx + 1) if info.in_shard else (0, 0)
            watched.piece, watched.waiting = _piece(handle, tuple(shape), run), waiting
    flat.register_hook(unserializable_hook(functools.partial(_on_gradient, recorder, reference)))


def _piece(handle: Any, shape: tuple[int, ...], run: tuple[int, int]) -> Layout:
    ranks = tuple(torch.distributed.get_process_group_ranks(handle.process_group))
    return Layout(ranks, ranks, shape, (), run=run if run[0] < run[1] else (0, 0))


@quiet
def _on_gradient(recorder: Recorder, reference: weakref.ref[Any], gradient: Tensor) -> None:
    """Notes the gradient of each original parameter in the flat one."""
    handle = reference()
    if handle is not None:
        for parameter, part in _parts(handle, gradient):
            watched = recorder.by_tensor.get(parameter)
            if watched is not None:
                recorder.on_gradient(watched, part.view(watched.shape))


def _parts(handle: Any, gradient: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    flat = handle.flat_param
    places = zip(handle._get_flat_param_offsets(), flat._is_padding_mask, strict=True)
    offsets = [(start, stop + 1) for (start, stop), padding in places if not padding]
    for parameter, (start, stop) in zip(flat._params, offsets, strict=True):
        yield parameter, gradient[start:stop]


def _waiting(reference: weakref.ref[Any]) -> tuple[Tensor | None, ...]:
    """The gradients that are not in the shards yet: those of passes without synchronisation, and the reduced ones."""
    flat = getattr(reference(), "flat_param", None)
    return getattr(flat, "grad", None), getattr(flat, "_saved_grad_shard", None)
