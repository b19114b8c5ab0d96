"""The recorder: the one object of a process that holds what capture saw and writes it to the trace.

It raises nothing into the job: every entry is wrapped by `quiet`, and what went wrong is written down for the verdict.
It adds no collective: each rank writes its own file.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.utils.hooks import unserializable_hook
from torch.utils.weak import WeakTensorKeyDictionary

from failuremap.audit.capture import other_processes, records
from failuremap.audit.capture.calls import Calls
from failuremap.audit.capture.held.copies import Copies
from failuremap.audit.capture.held.hooks import hook_of
from failuremap.audit.capture.held.layout import is_distributed
from failuremap.audit.capture.held.names import Modules
from failuremap.audit.capture.held.standing_in import StandIns
from failuremap.audit.capture.keeping import Keeping
from failuremap.audit.capture.notices import Notices
from failuremap.audit.capture.sampling import Sampling, Stepper
from failuremap.audit.capture.sketches.pieces import Piece, together
from failuremap.audit.capture.sketches.sketch import Sketch
from failuremap.audit.capture.stages import Stages
from failuremap.audit.capture.watching import Backward, Watched, is_plain, is_readable
from failuremap.audit.trace import TraceWriter, trace_path

# a rank stops recording at this size, and says so
TRACE_LIMIT = 512 << 20
_ERROR_LIMIT = 20

P = ParamSpec("P")
T = TypeVar("T")


def quiet(method: Callable[Concatenate[Recorder, P], None]) -> Callable[Concatenate[Recorder, P], None]:
    """Wraps an entry of the recorder: does nothing when it is off, and notes what it raises instead of raising it."""

    @functools.wraps(method)
    def guarded(self: Recorder, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if not self.active:
            return
        try:
            if not torch.is_grad_enabled():
                method(self, *args, **kwargs)
                return
            with torch.no_grad():
                method(self, *args, **kwargs)
        except Exception as error:  # the job that is watched must never see it
            self.note_error(method.__name__, error)

    return guarded


class Recorder:
    """Everything that capture knows in one process."""

    def __init__(self, folder: Path, run_id: str, step_limit: int | None, every: int = 1) -> None:
        self.folder, self.run_id, self.step_limit, self.every = folder, run_id, step_limit, every
        self._reset()
        self.notices: Notices | None = None
        self.opening: Callable[[int], tuple[Path, str]] | None = None
        """Says, given the rank, where the trace goes and which run it is of, where that is not known before."""
        self.keeping: Keeping | None = None
        self.step_hook: Any = None
        """Handle of the hook by which the steps of all optimizers are seen."""
        self.modules, self.stages = Modules(), Stages()
        self.watched: list[Watched] = []
        self.by_tensor = WeakTensorKeyDictionary()
        self.stand_ins = StandIns()
        self.copies = Copies()
        self.scalers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._sketches: dict[tuple[int, ...], Sketch] = {}

    def _reset(self) -> None:
        self.pid = os.getpid()
        self.active = True
        self.writer: TraceWriter | None = None
        self.rank = 0
        self.backward: Backward | None = None
        self.backward_count = 0
        self.depth = 0
        self.ddp_forwards: list[tuple[weakref.ref[Any], bool]] = []
        self.comm_hooks: list[str] = []
        self.calls = Calls()
        self.counts: list[int] = []
        self.optimizers: weakref.WeakKeyDictionary[Any, Stepper] = weakref.WeakKeyDictionary()
        self.optimizer_count = 0
        self.sampling = Sampling(self.every)
        self.step_count = 0
        self.errors: list[str] = []
        self.finished = False

    def after_fork(self) -> None:
        """Starts anew in a forked child, which may be a rank of its own: same hooks, another trace."""
        self._reset()
        for watched in self.watched:
            watched.named = watched.chosen = False
            watched.told.clear()

    def note_error(self, where: str, error: BaseException) -> None:
        """Keeps what went wrong inside the audit, for the verdict to say."""
        if len(self.errors) < _ERROR_LIMIT:
            self.errors.append(f"{where}: {type(error).__name__}: {error}"[:300])
        if isinstance(error, OSError) and where != "notices":
            self.active = False

    # ---- parameters

    def watch(self, tensor: Tensor, shape: tuple[int, ...] | None = None) -> Watched | None:
        """Puts a hook on a parameter that can get a gradient; the hook only reads.

        Args:
            tensor: The parameter.
            shape: Of the whole, where the tensor is a piece of it.
        """
        known: Watched | None = self.by_tensor.get(tensor)
        if known is not None or not tensor.requires_grad or not tensor.is_leaf or tensor.is_meta:
            return known
        if not is_plain(tensor) and not is_distributed(tensor):
            return None
        shape = tuple(tensor.shape) if shape is None else shape
        if shape not in self._sketches:
            self._sketches[shape] = Sketch(shape)
        watched = Watched(
            len(self.watched),
            weakref.ref(tensor),
            self._sketches[shape],
            str(tensor.dtype).removeprefix("torch."),
            shape,
        )
        self.watched.append(watched)
        self.by_tensor[tensor] = watched
        watched.hook = tensor.register_hook(hook_of(self, lambda: watched))
        return watched

    def let_go(self, tensor: Tensor) -> tuple[Watched | None, str]:
        """Drops every weak reference to a tensor, and the hook; returns what `take_back` needs."""
        watched: Watched | None = self.by_tensor.pop(tensor, None)
        if watched is not None and watched.tensor() is tensor:
            watched.tensor = lambda: None
            watched.hook.remove()
            if not tensor._backward_hooks:  # left empty, it would keep later hooks of the script's from being called
                tensor._backward_hooks = None
        return watched, self.modules.forget(tensor)

    def take_back(self, tensor: Tensor, known: tuple[Watched | None, str]) -> None:
        """Watches a tensor again that was let go."""
        watched, name = known
        if watched is None:
            return
        try:
            self.by_tensor[tensor] = watched
            self.modules.remember(tensor, name)
            if watched.tensor() is None:
                watched.tensor = weakref.ref(tensor)
                if tensor.requires_grad:
                    watched.hook = tensor.register_hook(hook_of(self, lambda: watched))
        except Exception as error:
            self.note_error("take_back", error)

    @quiet
    def on_gradient(self, watched: Watched, gradient: Tensor) -> None:
        """Notes one parameter's local gradient, before anything reduces or accumulates it."""
        backward = self._running()
        if self.sampling.in_part and not watched.chosen:
            backward.passed_by = True
            return
        if (type(gradient) is not Tensor and not is_readable(gradient)) or gradient.shape != watched.shape:
            raise TypeError(watched.unlike(gradient, self.modules.name(watched.tensor())))
        if not watched.named:  # mixed precision: the type of the pass, not of the parameter
            watched.dtype = str(gradient.dtype).removeprefix("torch.")
        sketch = watched.read(gradient, "gradient")
        watched.sparse |= gradient.is_sparse
        self.keep(backward, watched, sketch)

    def keep(self, backward: Backward, watched: Watched, sketch: Piece) -> None:
        """Adds what was read of a gradient to the running pass."""
        if place := watched.holds_gradient():
            backward.kept.append(watched.id)
            backward.kept_in_copies |= place == "copy"
        backward.sketches.append((watched.id, sketch))

    # ---- backward passes

    def begin_backward(self, kind: str, unseen: list[str], path: dict[str, Any]) -> None:
        """Opens the record of a backward pass; a nested one (checkpointing) belongs to the outer."""
        self.depth += 1
        if self.depth == 1:
            self._open_pass(kind, unseen, path)

    @quiet
    def _open_pass(self, kind: str, unseen: list[str], path: dict[str, Any]) -> None:
        if self.writer is None and other_processes.is_beside(self.folder):
            self.active = False
            return
        self.backward = Backward(self.backward_count, kind, path, unseen)
        self.sampling.note_pass(self.backward_count)
        if self.keeping is not None:
            self.keeping.begin_pass(self.backward_count)
        self.copies.look(self)
        self._go_behind_own_hooks()

    def end_backward(self) -> None:
        """Closes the record of the outermost backward pass and writes it down."""
        self.depth = max(0, self.depth - 1)
        if self.depth or self.backward is None:
            return
        self._close_pass()
        self.backward = None
        self.ddp_forwards.clear()

    @quiet
    def _close_pass(self) -> None:
        assert self.backward is not None
        self.flush_backward()
        self.calls.received.note_gradients()
        unread = self.backward.passed_by and not self.backward.written
        self.sampling.unread += unread
        self.backward_count += self.backward.written or unread

    def _running(self) -> Backward:
        if self.backward is None:  # started by something other than torch.autograd's two functions
            self.begin_backward("engine", [], {})
            torch.autograd.Variable._execution_engine.queue_callback(self.end_backward)
        assert self.backward is not None
        return self.backward

    @quiet
    def _go_behind_own_hooks(self) -> None:
        """Puts a second hook behind the script's own ones, where there are any, to see what they made of it."""
        for watched in self.watched:
            tensor = watched.tensor()
            hooks = getattr(tensor, "_backward_hooks", None)
            if (
                tensor is None
                or not hooks
                or len(hooks) == 1
                or (watched.after and next(reversed(hooks)) == watched.after.id)
            ):
                continue
            if watched.after:
                watched.after.remove()
            if len(hooks) > 1:
                watched.after = tensor.register_hook(unserializable_hook(functools.partial(self._after_hooks, watched)))

    def _after_hooks(self, watched: Watched, gradient: Tensor) -> None:
        self.on_altered(watched, gradient)

    @quiet
    def on_altered(self, watched: Watched, gradient: Tensor) -> None:
        """Notes the gradient as the script's own hooks left it."""
        if self.sampling.in_part and not watched.chosen:
            return
        if self.backward is not None and is_readable(gradient) and tuple(gradient.shape) == watched.shape:
            self.backward.altered.append((watched.id, watched.read(gradient.detach(), "gradient")))

    @quiet
    def on_loss(self, event: dict[str, Any]) -> None:
        """Notes that the gradient of a loss function's result has arrived: the scale that reached it."""
        self._running().losses.append(event)

    @quiet
    def flush_backward(self) -> None:
        """Writes what the running backward pass has brought so far (an optimizer may step inside it)."""
        backward = self.backward
        if backward is None or not backward.sketches:
            return
        sketches, altered, losses, kept = backward.sketches, backward.altered, backward.losses, backward.kept
        backward.sketches, backward.altered, backward.losses, backward.kept = [], [], [], []
        backward.written = True
        parameters = [id for id, _ in sketches]
        fields = {
            "kind": "backward", "id": backward.id, "via": backward.kind, "parameters": parameters, "kept": kept,
            "altered": [id for id, _ in altered], "unseen": backward.unseen, "path": backward.path,
            "losses": [{key: _number(value) for key, value in loss.items()} for loss in losses], "counts": self.counts,
            **backward.pipeline_fields(),
            **({"kept_in_copies": True} if backward.kept_in_copies else {}),
        }  # fmt: skip
        self.counts = []
        self.write(fields, together([sketch for _, sketch in sketches + altered]), parameters)

    # ---- steps

    def stepper(self, optimizer: Any) -> Stepper:
        """What is remembered of an optimizer; it is numbered when it steps first."""
        if optimizer not in self.optimizers:
            self.optimizers[optimizer] = Stepper(self.optimizer_count)
            self.optimizer_count += 1
        return self.optimizers[optimizer]

    def after_step(self, stepper: Stepper) -> None:
        """Counts a step, and switches the recorder off when the steps to audit are done."""
        stepper.count += 1
        stepper.backward_count, stepper.unread = self.backward_count, self.sampling.unread
        self.step_count = max(stepper.count for stepper in self.optimizers.values())
        self.sampling.begin(self.step_count)
        if self.step_limit is not None and all(s.count >= self.step_limit for s in self.optimizers.values()):
            self.active = False

    def heed(self) -> None:
        """Reads what was found in the traces so far; raises JobStopped where the job is to stop for it."""
        if self.notices is None or self.writer is None:
            return
        try:
            self.notices.read(self.folder, speaks=self.rank == 0)
        except Exception as error:
            self.note_error("notices", error)
        self.notices.stop_if_due(self.step_count, self.folder)

    # ---- writing

    def write(self, fields: dict[str, Any], payload: Any = None, parameters: list[int] | None = None) -> None:
        """Appends a record; before the first one the header, and before a parameter's first use its own record."""
        if self.writer is None:
            self._open()
        assert self.writer is not None
        for id in parameters or []:
            if not self.watched[id].named:
                self.watched[id].named = True
                self.writer.write(records.parameter(self, self.watched[id]))
            for layout in self.watched[id].untold():
                self.writer.write(layout)
        self.writer.write(fields, payload)
        if self.active and self.writer.byte_count > TRACE_LIMIT:
            self.writer.write(
                {"kind": "note", "text": f"the trace reached {TRACE_LIMIT >> 20} MiB; later steps were not recorded"}
            )
            self.active = False

    def _open(self) -> None:
        self.rank, world_size = other_processes.place()
        if self.opening is not None:
            self.folder, self.run_id = self.opening(self.rank)
        other_processes.tell_children()
        self.writer = TraceWriter(trace_path(self.folder, self.rank))
        self.writer.write(records.header(self, world_size))

    def finish(self) -> None:
        """Writes the end of the trace: the weights as they are now, and what went wrong."""
        if self.finished or os.getpid() != self.pid:
            return
        self.finished = True
        try:
            if self.writer is not None or self.errors:  # else no gradient came through this process: a data loader, say
                self._write_end()
        except Exception as error:  # at exit nobody is left to tell; the missing end record says it
            self.note_error("finish", error)
        self.active = False

    def _write_end(self) -> None:
        fields, payload = records.end(self)
        self.write(fields, payload, fields["parameters"])
        assert self.writer is not None
        self.writer.close()


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value
