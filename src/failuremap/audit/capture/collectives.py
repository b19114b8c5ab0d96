"""Watches the collectives that are called from Python: which, by whom, over which ranks, how much, and when.

Nothing of what is in them: a call costs a few integers, and no tensor is kept. Not seen are those below Python (the
reducer of DistributedDataParallel), methods of process groups, and what is compiled; functional.py watches the others.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from failuremap.audit.capture.callers import caller_of
from failuremap.audit.capture.calls import Alike, Entry, Gradients, Span
from failuremap.audit.capture.held.layout import local
from failuremap.audit.capture.prints import prints_of
from failuremap.audit.capture.recorder import Recorder, quiet
from failuremap.audit.trace import as_runs

# what goes in: its place and its name; and the same of what comes out
_COLLECTIVES = {
    "all_reduce": (0, "tensor", 0, "tensor"),
    "all_reduce_coalesced": (0, "tensors", 0, "tensors"),
    "reduce": (0, "tensor", 0, "tensor"),
    "reduce_scatter": (1, "input_list", 0, "output"),
    "reduce_scatter_single": (1, "input", 0, "output"),
    "reduce_scatter_tensor": (1, "input", 0, "output"),
    "all_gather": (1, "tensor", 0, "tensor_list"),
    "all_gather_single": (1, "input_tensor", 0, "output_tensor"),
    "all_gather_into_tensor": (1, "input_tensor", 0, "output_tensor"),
    "all_to_all": (1, "input_tensor_list", 0, "output_tensor_list"),
    "all_to_all_single": (1, "input", 0, "output"),
    "broadcast": (0, "tensor", 0, "tensor"),
    "gather": (0, "tensor", 1, "gather_list"),
    "send": (0, "tensor", 0, "tensor"),
    "isend": (0, "tensor", 0, "tensor"),
}
# sends of one entry that are known again
_PRINT_LIMIT = 1024
_GATHERS = ("all_gather", "all_gather_single", "all_gather_into_tensor")
# what a script does with the handle of an asynchronous call before it reads the result
_WAITS = ("wait", "synchronize", "get_future", "is_completed", "block_current_stream")
_C10D = os.path.join(os.path.dirname(torch.__file__), "distributed", "distributed_c10d.py")

_restore: list[Callable[[], None]] = []


def install(recorder: Recorder) -> None:
    """Watches the collectives of torch.distributed, and who waits for them."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    for name in _COLLECTIVES:
        original = getattr(distributed_c10d, name, None)
        if original is not None:
            watching = _watching(recorder, name, original)
            for module in (distributed_c10d, torch.distributed):
                replace(module, name, watching)
            _stand_in(original, watching)
    for name in _WAITS:
        if name in vars(distributed_c10d.Work):
            replace(distributed_c10d.Work, name, _noticing(recorder, vars(distributed_c10d.Work)[name]))


def _stand_in(original: Callable[..., Any], watching: Callable[..., Any]) -> None:
    """Lets the compiler put in the place of a watched collective what it puts in that of the original."""
    functional = sys.modules.get("torch.distributed._functional_collectives")  # if it comes later, it finds the watched
    traceable: dict[Any, Any] = getattr(functional, "traceable_collective_remaps", {})
    if original in traceable:
        traceable[watching] = traceable[original]


def restore() -> None:
    """Puts everything back that `install` replaced, where nothing else has replaced it since."""
    while _restore:
        _restore.pop()()


def replace(holder: Any, name: str, watching: Callable[..., Any]) -> None:
    """Puts a watching function in the place of another, until `restore`."""
    original = vars(holder)[name]

    def back() -> None:
        if vars(holder).get(name) is watching:
            setattr(holder, name, original)

    setattr(holder, name, watching)
    _restore.append(back)


def _noticing(recorder: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def waited(self: object, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if result is not False:  # is_completed may say no
            recorder.calls.awaited(self)
        return result

    return waited


def _watching(recorder: Recorder, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not recorder.active:
            return original(*args, **kwargs)
        if name != "isend" and sys._getframe(1).f_code.co_filename == _C10D:  # called by another collective
            return original(*args, **kwargs)
        entry = _noted(recorder, name, args, kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            recorder.calls.failed(entry, error)
            raise
        if hasattr(result, "is_completed"):
            recorder.calls.started(entry, result)
        return result

    return collective


def _noted(recorder: Recorder, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
    """Counts a call before it is made; None where nothing could be read, or this rank is not in the group."""
    try:
        operation, group, is_member = _asked(args, kwargs)
        if not is_member:
            return None
        place, key, out_place, out_key = _COLLECTIVES[name]
        sent = _tensors(args, kwargs, place, key)
        received = sent if key == out_key else _tensors(args, kwargs, out_place, out_key)
        floating = any(tensor.is_floating_point() for tensor in sent)
        elements = sum(tensor.numel() for tensor in sent) if floating else 0
        caller = caller_of(sys._getframe(2))
        running = torch._C._current_graph_task_id() != -1
        plain = floating and not caller.by and not running
        following = plain and elements > 1 and torch.is_grad_enabled()
        held = any(tensor.requires_grad for tensor in sent)
        # under no_grad, too: a script may put its own rows back afterwards
        gathers = plain and elements > 1 and name in _GATHERS and (following or held)
        alike = Alike(
            name,
            operation,
            tuple(torch.distributed.get_process_group_ranks(group)),
            recorder.backward_count,
            running,
            caller.by,
            caller.own,
            caller.site,
            following and held,
            sum(len(tensor) for tensor in received if tensor.dim()) if gathers else 0,
            gathers and not following,
        )
        entry = recorder.calls.add(alike, elements, [span for span in map(_span, received) if span] if plain else [])
        if name in ("send", "isend") and plain and not recorder.stages.known and len(entry.sent) < _PRINT_LIMIT:
            _known_again(recorder, entry, sent)
        return entry
    except Exception as error:
        recorder.note_error("collective", error)
        return None


def _known_again(recorder: Recorder, entry: Entry, sent: list[Tensor]) -> None:
    """Notes the numbers of what is sent, and which of it is the gradient of something that was received."""
    for tensor in sent:
        numbers = prints_of(tensor)
        entry.sent += numbers
        entry.gradients += numbers if numbers and recorder.calls.received.has_gradient(tensor) else []


def _asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any, bool]:
    """The operation, the process group (None: all ranks), and whether this rank is in it."""
    operation, group, is_member = "", None, True
    for value in (*args[1:], *kwargs.values()):
        if isinstance(value, Tensor):
            continue
        kind = type(value).__name__
        if kind in ("RedOpType", "ReduceOp"):
            operation = str(value).rpartition(".")[2].lower()
        elif kind.startswith("ProcessGroup"):
            group = value
        elif kind == "int" and value is torch.distributed.GroupMember.NON_GROUP_MEMBER:
            is_member = False
    return operation, group, is_member


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, key: str) -> list[Tensor]:
    value = args[place] if place < len(args) else kwargs.get(key)
    if isinstance(value, Tensor):
        return [value]
    return [tensor for tensor in value or () if isinstance(tensor, Tensor)]


def _span(tensor: Tensor) -> Span | None:
    """Where a tensor lies; None where it lies nowhere."""
    held: Any = local(tensor)
    held = held._values() if held.is_sparse else held
    if not held.numel() or held.layout != torch.strided:
        return None
    start = held.data_ptr()
    return start, start + held.numel() * held.element_size(), held.numel()


@quiet
def tell(recorder: Recorder) -> None:
    """Writes down which collectives were called since the last step."""
    entries = recorder.calls.taken()
    if not entries:
        return
    wanted = any(entry.written(recorder.backward_count) for entry in entries)
    gradients = Gradients(list(_gradients(recorder)) if wanted else [])
    told = []
    for entry in entries:
        fields = entry.fields(recorder.backward_count, gradients)
        told.append(fields | {"group": _group(recorder, entry.alike.group)})
    ids = sorted({id for fields in told for id in fields.get("parameters", ())})
    recorder.write({"kind": "collectives", "calls": told}, None, ids)


def _gradients(recorder: Recorder) -> Iterator[tuple[int, int, int]]:
    for watched in recorder.watched:
        own = getattr(watched.tensor(), "grad", None)
        for gradient in (own,) if watched.place is None else (own, watched.stepped_on()):
            span = None if gradient is None else _span(gradient)
            if span is not None:
                yield span[0], span[1], watched.id


def _group(recorder: Recorder, ranks: tuple[int, ...]) -> int:
    groups = recorder.calls.groups
    if ranks not in groups:
        groups[ranks] = len(groups)
        recorder.write({"kind": "group", "id": groups[ranks], "ranks": as_runs(ranks)})
    return groups[ranks]
