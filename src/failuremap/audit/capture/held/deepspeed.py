"""Learns from DeepSpeed's optimizers which elements of which parameters the tensors hold that they step on.

ZeRO 1, 2      single_partition_of_fp32_groups: this rank's part of all parameters of a group, one after another
ZeRO 3         fp32_partitioned_groups_flat: this rank's part of each parameter, one after another
bf16 in fp32   fp32_groups_flat_partition: as in ZeRO 1
fp16, bf16     fp32_groups_flat, fp32_groups: copies of all elements, on each rank

An optimizer steps there after the gradients are unscaled and clipped. What holds other numbers than the parameters that
it should hold, and what is kept on another device, is not read: the verdict says so.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from failuremap.audit.capture.held.layout import Layout
from failuremap.audit.capture.held.standing_in import hold_alike
from failuremap.audit.capture.late import after_import
from failuremap.audit.capture.recorder import Recorder, quiet

Held = Iterable[Tensor | None]

# what an optimizer may have beside the plain ZeRO, by attribute: each changes where its numbers lie, or what they are
_BESIDE = {
    "cpu_offload": "offload", "offload_optimizer": "offload", "offload_param": "offload", "zenflow": "ZenFlow",
    "all2all_process_group": "quantised gradients", "has_moe_layers": "experts",
}  # fmt: skip


@dataclass(frozen=True)
class _Part:
    """What an optimizer holds of one parameter on this rank."""

    parameter: Any
    tensor: Tensor
    """The tensor in the optimizer."""
    start: int
    """Where the parameter's elements begin there."""
    size: int
    run: tuple[int, int] | None = None
    """Which elements of the flattened parameter they are; None: all."""
    same: Tensor | None = None
    """The same elements as the model has them."""
    group: Any = None
    """The process group whose ranks hold the parameter together, where they do."""
    waiting: Callable[[Any, Any], Held] | None = None
    """Given the optimizer and the parameter: gradients that are kept elsewhere until the step."""
    whole_weights: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole parameter."""
        return tuple(getattr(self.parameter, "ds_shape", self.parameter.shape))


def install(recorder: Recorder) -> None:
    """Watches each of DeepSpeed's optimizers, as soon as the job imports it."""
    for module, (name, parts) in _KINDS.items():
        after_import(f"deepspeed.runtime.{module}", functools.partial(_watch_making, recorder, name, parts))


def _watch_making(recorder: Recorder, name: str, parts: Callable[[Any], Iterator[_Part]], module: ModuleType) -> None:
    kind = getattr(module, name, None)
    if kind is None:  # another version: nothing is captured, and the verdict says so
        return
    original = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes just that
        active, recorder.active = recorder.active, False  # some step on zeros, to make room for their states
        try:
            original(self, *args, **kwargs)
        finally:
            recorder.active = active
        on_made(recorder, self, kind, parts)

    kind.__init__ = __init__


@quiet
def on_made(recorder: Recorder, made: Any, kind: type, parts: Callable[[Any], Iterator[_Part]]) -> None:
    """Learns what an optimizer that has just been made holds, or notes why it is not understood."""
    found: list[_Part] = []
    why = _beside(made, kind)
    try:
        found = list(parts(made))
        for part in found:
            list(() if part.waiting is None else part.waiting(made, part.parameter))
        why = why or _not_as_expected(recorder, found)
    except Exception as error:  # another version: what it's called there is what a reader needs to know
        why = why or f"attributes that are not known ({type(error).__name__}: {error})"
    if why:
        recorder.stand_ins.leave_unread(made.optimizer, f"{type(made).__name__} with {why}")
        return
    reference = weakref.ref(made)
    for part in found:
        _watch(recorder, reference, part)
    recorder.stand_ins.before_steps(made.optimizer, functools.partial(_tell_clip, recorder, reference))


def _beside(made: Any, kind: type) -> str:
    """What an optimizer has beside the plain one; '' if nothing."""
    if type(made) is not kind:
        return "methods of its own"
    if getattr(made, "zero_hpz_partition_size", 1) != 1:
        return "secondary partitions"
    return next((what for attribute, what in _BESIDE.items() if getattr(made, attribute, None)), "")


def _not_as_expected(recorder: Recorder, parts: list[_Part]) -> str:
    """Why the parts of an optimizer are not what they should be; '' if they are."""
    everybody = torch.distributed.get_world_size()
    if any(part.run is not None and len(_ranks(part.group)) != everybody for part in parts):
        return "partitions over a part of the ranks"
    watched = [recorder.watch(part.parameter, part.shape) for part in parts]
    if any(one is None or one.shape != part.shape for one, part in zip(watched, parts, strict=True)):
        return "parameters that were not seen before they were partitioned"
    pairs = [(part.same, part.tensor.detach().reshape(-1).narrow(0, part.start, part.size)) for part in parts]
    if not all(same is None or hold_alike(same, there) for same, there in pairs):
        return "other numbers in its partitions than in the parameters"
    return ""


def _watch(recorder: Recorder, made: weakref.ref[Any], part: _Part) -> None:
    watched = recorder.by_tensor[part.parameter]
    if part.run is not None:
        ranks = _ranks(part.group)
        watched.piece = Layout(ranks, ranks, part.shape, (), run=part.run if part.size else (0, 0))
    if part.waiting is not None:
        watched.waiting = functools.partial(_waiting, made, watched.tensor, part.waiting)
    recorder.stand_ins.add(watched, part.tensor, part.start, part.size, whole_weights=part.whole_weights)


def _ranks(group: Any) -> tuple[int, ...]:
    return tuple(torch.distributed.get_process_group_ranks(group))


def _waiting(made: weakref.ref[Any], parameter: Callable[[], Any], held: Callable[[Any, Any], Held]) -> Held:
    optimizer, tensor = made(), parameter()
    return () if optimizer is None or tensor is None else held(optimizer, tensor)


@quiet
def _tell_clip(recorder: Recorder, made: weakref.ref[Any]) -> None:
    """Writes down the norm by which DeepSpeed has clipped, as clip_grad_norm_ is written down."""
    optimizer = made()
    if optimizer is None or not optimizer.clip_grad > 0:
        return
    norm = float(optimizer._global_grad_norm)
    if type(optimizer).__name__ == "FP16_UnfusedOptimizer":  # that of gradients times the loss scale
        norm /= float(optimizer.loss_scale)
    limit = float(optimizer.clip_grad)
    recorder.write({"kind": "clip", "function": "gradient_clipping", "norm": norm, "limit": limit})


# ---- what each of them holds


def _zero_1_and_2(made: Any) -> Iterator[_Part]:
    for index, tensor in enumerate(made.single_partition_of_fp32_groups):
        parameters = made.round_robin_bit16_groups[index]
        # versions that leave no room between parameters have no list
        told = getattr(made, "round_robin_bit16_offsets", None)
        offsets = _one_after_another(parameters) if told is None else told[index]
        waiting = functools.partial(_accumulated, index)
        yield from _partition(parameters, offsets, tensor, made.real_dp_process_group[index], waiting)


def _accumulated(index: int, made: Any, parameter: Any) -> Held:
    yield getattr(parameter, "grad_accum", None)
    yield from made.averaged_gradients.get(index) or ()
    # older versions add up in the former alone
    yield from getattr(made, "all_grad_tensors", {}).get(index) or ()


def _bfloat16(made: Any) -> Iterator[_Part]:
    waiting = lambda _, parameter: (getattr(parameter, "_hp_grad", None),)  # noqa: E731
    for index, tensor in enumerate(made.fp32_groups_flat_partition):
        parameters = made.bf16_groups[index]
        group = made.real_dp_process_group[index]
        yield from _partition(parameters, _one_after_another(parameters), tensor, group, waiting)


def _partition(
    parameters: Sequence[Any], offsets: Sequence[int], tensor: Tensor, group: Any, waiting: Callable[[Any, Any], Held]
) -> Iterator[_Part]:
    """This rank's part of parameters that begin at these places of a flat tensor, which is dealt out in equal parts."""
    own = torch.distributed.get_rank(group) * tensor.numel()
    for parameter, offset in zip(parameters, offsets, strict=True):
        first, stop = max(offset, own), min(offset + parameter.numel(), own + tensor.numel())
        if first < stop:
            run, same = (first - offset, stop - offset), parameter.detach().reshape(-1)[first - offset : stop - offset]
            yield _Part(parameter, tensor, first - own, stop - first, run, same, group, waiting)
        else:  # it lies on other ranks
            yield _Part(parameter, tensor, 0, 0, (0, 0), None, group, waiting)


def _one_after_another(parameters: Sequence[Any]) -> list[int]:
    return [0, *itertools.accumulate(parameter.numel() for parameter in parameters)][:-1]


def _zero_3(made: Any) -> Iterator[_Part]:
    rank = torch.distributed.get_rank(made.dp_process_group)
    for index, (parameters, tensor) in enumerate(zip(made.fp16_groups, made.fp32_partitioned_groups_flat, strict=True)):
        start = 0
        for parameter in parameters:
            size, count = parameter.partition_numel(), parameter.ds_numel
            first, stop = min(rank * size, count), min(rank * size + size, count)
            same = parameter.ds_tensor.detach().reshape(-1)[: stop - first]
            waiting = functools.partial(_partitioned, index)
            run, group = (first, stop), made.dp_process_group
            yield _Part(parameter, tensor, start, stop - first, run, same, group, waiting, whole_weights=False)
            start += size


def _partitioned(index: int, made: Any, parameter: Any) -> Held:
    # the first pass of a window writes over what is there
    return (made.averaged_gradients.get(index) or ()) if made.micro_step_id > 0 else ()


def _flat_copies(made: Any) -> Iterator[_Part]:
    for parameters, tensor in zip(made.fp16_groups, made.fp32_groups_flat, strict=True):
        for parameter, start in zip(parameters, _one_after_another(parameters), strict=True):
            yield _Part(parameter, tensor, start, parameter.numel(), same=parameter.detach())


def _copies(made: Any) -> Iterator[_Part]:
    for parameters, copies in zip(made.fp16_groups, made.fp32_groups, strict=True):
        for parameter, copy in zip(parameters, copies, strict=True):
            yield _Part(parameter, copy, 0, parameter.numel(), same=parameter.detach())


_KINDS = {
    "zero.stage_1_and_2": ("DeepSpeedZeroOptimizer", _zero_1_and_2),
    "zero.stage3": ("DeepSpeedZeroOptimizer_Stage3", _zero_3),
    "bf16_optimizer": ("BF16_Optimizer", _bfloat16),
    "fp16.fused_optimizer": ("FP16_Optimizer", _flat_copies),
    "fp16.unfused_optimizer": ("FP16_UnfusedOptimizer", _copies),
}
