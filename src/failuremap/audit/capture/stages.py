"""Watches the stages of torch.distributed.pipelining: which micro-batch of which stage a backward pass is of.

A schedule calls its stage for each micro-batch, once for the whole backward, or once for the gradients of the inputs
and once more for those of the weights. All that autograd does in the latter is one pass of this micro-batch; the loss,
which the last stage alone has, arrives in the former.
"""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from failuremap.audit.capture.late import after_import
from failuremap.audit.trace import as_runs

if TYPE_CHECKING:
    from failuremap.audit.capture.held.names import Modules
    from failuremap.audit.capture.recorder import Recorder
    from failuremap.audit.capture.watching import Backward

_MODULE = "torch.distributed.pipelining.stage"


class Stages:
    """The pipeline stages of this process, each with the number of times that a micro-batch went through it."""

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        """Of each parameter, by its identity, the stage whose module holds it."""
        self._rounds: weakref.WeakKeyDictionary[Any, Counter[int]] = weakref.WeakKeyDictionary()
        self._pending: weakref.WeakKeyDictionary[Any, dict[int, Backward]] = weakref.WeakKeyDictionary()

    @property
    def known(self) -> bool:
        """Whether a schedule of torch's numbers the micro-batches."""
        return bool(self._rounds)

    def told_of(self, parameter: Tensor | None, modules: Modules) -> dict[str, Any]:
        """What a trace says of a parameter beside its name: the stage whose module holds it, and what holds it."""
        fields: dict[str, Any] = {}
        if self.known:
            if id(parameter) not in self._index:
                self._index = {
                    id(modules.stood_for(held)): int(stage.stage_index)
                    for stage in list(self._rounds)
                    for held in stage.submod.parameters()
                }
            fields = {"stage": self._index[id(parameter)]} if id(parameter) in self._index else {}
        held_as = modules.held_as(parameter)
        return fields | ({"held_as": held_as} if held_as else {})

    def add(self, stage: Any) -> None:
        """Remembers a stage, weakly."""
        self._rounds.setdefault(stage, Counter())

    def begin(self, stage: Any, micro_batch: int) -> None:
        """Counts a backward of a micro-batch."""
        self._rounds.setdefault(stage, Counter())[micro_batch] += 1

    def place(self, stage: Any, micro_batch: int) -> dict[str, Any]:
        """What a trace says of the pass that runs."""
        group = torch.distributed.get_process_group_ranks(stage.group)
        number = self._rounds[stage][micro_batch] - 1
        return {"index": stage.stage_index, "micro_batch": micro_batch, "round": number, "ranks": as_runs(group)}

    def keep(self, stage: Any, micro_batch: int, backward: Backward) -> None:
        """Keeps what came with the gradients of the inputs until those of the weights come."""
        self._pending.setdefault(stage, {})[micro_batch] = backward

    def kept(self, stage: Any, micro_batch: int) -> Backward | None:
        """What was kept of a micro-batch."""
        return self._pending.get(stage, {}).pop(micro_batch, None)


def install(recorder: Recorder) -> None:
    """Watches the stages, as soon as the job imports them."""
    after_import(_MODULE, functools.partial(_watch, recorder))


def _watch(recorder: Recorder, module: ModuleType) -> None:
    base: Any = getattr(module, "_PipelineStageBase", None)
    names = ("__init__", "backward_one_chunk", "backward_weight_one_chunk")
    if base is None or not set(names) <= set(vars(base)):  # another version of torch: no pass has a stage, and it shows
        return
    started, whole, weights = (vars(base)[name] for name in names)

    @functools.wraps(started)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        started(self, *args, **kwargs)
        recorder.stages.add(self)

    base.__init__ = init
    base.backward_one_chunk = _as_one_pass(recorder, whole, _begin)
    base.backward_weight_one_chunk = _as_one_pass(recorder, weights, _go_on)


def _as_one_pass(
    recorder: Recorder, original: Callable[..., Any], begin: Callable[[Recorder, Any, int], None]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def chunk(self: Any, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        if not recorder.active or not self.has_backward or recorder.depth:
            return original(self, bwd_chunk_id, *args, **kwargs)
        recorder.begin_backward("backward", [], {})
        try:
            begin(recorder, self, bwd_chunk_id)
        except Exception as error:
            recorder.note_error("backward", error)
        try:
            return original(self, bwd_chunk_id, *args, **kwargs)
        finally:
            _end(recorder, self, bwd_chunk_id)

    return chunk


def _begin(recorder: Recorder, stage: Any, micro_batch: int) -> None:
    """The gradients of the inputs, and of the weights, too, unless these come later."""
    assert recorder.backward is not None
    recorder.stages.begin(stage, micro_batch)
    recorder.backward.stage = recorder.stages.place(stage, micro_batch)
    recorder.backward.starts_at_loss = bool(stage.is_last)


def _go_on(recorder: Recorder, stage: Any, micro_batch: int) -> None:
    """The gradients of the weights: the first stage, whose inputs need none, goes through all of its graph here."""
    assert recorder.backward is not None
    recorder.backward.stage = recorder.stages.place(stage, micro_batch)
    before = recorder.stages.kept(stage, micro_batch)
    if before is not None:
        recorder.backward.losses, recorder.backward.unseen = before.losses, before.unseen
    recorder.backward.starts_at_loss = bool(stage.is_last and stage.is_first)


def _end(recorder: Recorder, stage: Any, micro_batch: int) -> None:
    backward = recorder.backward
    recorder.end_backward()
    try:
        if backward is not None and micro_batch in getattr(stage, "dw_runner", ()) and not backward.written:
            recorder.stages.keep(stage, micro_batch, backward)
    except Exception as error:
        recorder.note_error("backward", error)
