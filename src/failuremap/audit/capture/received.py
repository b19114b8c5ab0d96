"""Watches what a script receives from other ranks: what it sends back should be the gradient of one of these tensors.

A stage of a pipeline by hand receives activations, goes backward, and sends their gradient to the stage before. That it
is the gradient, and no multiple of it, shows here alone.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from failuremap.audit.capture.recorder import Recorder

# tensors that are remembered until the next step
_MOST = 4096
# of those, how many are held against what is sent, element by element
_COMPARED = 4


class Received:
    """The tensors that were received since the last step and whose gradient was not sent yet, held weakly."""

    def __init__(self) -> None:
        self._held: list[weakref.ref[Tensor]] = []
        self._versions: dict[int, int] = {}
        """By the identity of the reference: how often the gradient was written to in place when its pass had ended."""

    def add(self, tensor: Tensor) -> None:
        """Remembers a tensor; one that has a gradient already is none whose gradient is sent next."""
        if len(self._held) < _MOST and tensor.grad is None:
            self._held.append(weakref.ref(tensor))

    def clear(self) -> None:
        """Forgets all."""
        self._held.clear()
        self._versions.clear()

    def note_gradients(self) -> None:
        """Notes which of them have got a gradient, when a backward pass ends."""
        for ref, _, version in self._live():
            self._versions.setdefault(id(ref), version)

    def has_gradient(self, sent: Tensor) -> bool:
        """Whether a tensor is the gradient of one of these just as a pass left it, or a copy; once for each."""
        found = self._meeting(sent)
        if found is not None:
            self._held = [ref for ref in self._held if ref is not found]  # equality would compare the tensors
            self._versions.pop(id(found), None)
        return found is not None

    def _live(self) -> Iterator[tuple[weakref.ref[Tensor], Tensor, int]]:
        for ref in self._held:
            tensor = ref()
            if tensor is not None and tensor.grad is not None:
                yield ref, tensor.grad, tensor.grad._version

    def _meeting(self, sent: Tensor) -> weakref.ref[Tensor] | None:
        live = [(ref, grad) for ref, grad, version in self._live() if self._versions.get(id(ref)) == version]
        alike = [(ref, grad) for ref, grad in live if grad.shape == sent.shape]
        for ref, grad in alike:
            if grad.data_ptr() == sent.data_ptr() and grad.dtype == sent.dtype:
                return ref
        for ref, grad in alike[:_COMPARED]:
            if torch.equal(grad.detach().to(sent.dtype), sent.detach()):
                return ref
        return None


def install(recorder: Recorder) -> None:
    """Watches recv and irecv."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    from failuremap.audit.capture.collectives import replace

    for name in ("recv", "irecv"):
        watching = _watching(recorder, vars(distributed_c10d)[name])
        for module in (distributed_c10d, torch.distributed):
            replace(module, name, watching)


def _watching(recorder: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def receive(*args: Any, **kwargs: Any) -> Any:
        if recorder.active and not recorder.stages.known and not torch.compiler.is_compiling():
            try:
                tensor = args[0] if args else kwargs.get("tensor")
                if type(tensor) is Tensor and tensor.is_floating_point() and tensor.numel() > 1:
                    recorder.calls.received.add(tensor)
            except Exception as error:
                recorder.note_error("received", error)
        return original(*args, **kwargs)

    return receive
