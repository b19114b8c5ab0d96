"""Copies that an optimizer steps on in place of the model's parameters, such as float32 masters of bfloat16 weights.

A script that makes them says nothing of it. What an optimizer steps on and autograd has never reached is held against
the parameters that autograd reaches and no optimizer steps on:

one for one     a tensor of as many elements, equal up to the rounding of the parameter's type
laid out flat   a tensor in which parameters lie one after another, in the order of the model or the reverse
alike           as many copies as parameters that all equal each other (biases of zeros): in the order in which the
                others are copies of theirs; the steps show whether it is so

A parameter of which there are two copies is taken for neither's. At each step that follows, a copy has to be equal to
its parameter still; where it isn't, the step is not measured.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from failuremap.audit.capture.held.likeness import Likeness, still_equal
from failuremap.audit.capture.held.matching import Match, matches
from failuremap.audit.capture.watching import Watched, is_plain

if TYPE_CHECKING:
    from failuremap.audit.capture.recorder import Recorder

# steps at which copies are looked for; a job whose copies are of another kind isn't searched for ever
_TRIES = 16


class _Gradient:
    """The gradient of one copy: whether anything has been accumulated in it since the last step."""

    def __init__(self, holder: Tensor) -> None:
        self._holder = weakref.ref(holder)
        self._known: weakref.ref[Tensor] | None = None
        self._version = 0

    def note_step(self) -> None:
        """Remembers what is stepped on: what is left of it is nothing that a later pass has brought."""
        gradient = self._now()
        self._known = None if gradient is None else weakref.ref(gradient)
        self._version = 0 if gradient is None else gradient._version

    def accumulated(self, watched: Watched, start: int) -> Tensor | None:
        """What has been put there for a parameter since the last step."""
        gradient = self._now()
        if gradient is None or (
            self._known is not None and self._known() is gradient and gradient._version == self._version
        ):
            return None
        return gradient.reshape(-1).narrow(0, start, watched.sketch.size).view(watched.shape)

    def _now(self) -> Tensor | None:
        holder = self._holder()
        return None if holder is None else holder.grad


class Copies:
    """Which tensors that optimizers step on are copies of which parameters."""

    def __init__(self) -> None:
        self._optimizers: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        """Each with what had a gradient when it stepped last and nothing was unknown, as one number."""
        self._unsettled = False
        self._tries = 0
        self._gradients: dict[int, _Gradient] = {}
        """By the numbers of the parameters that have copies."""
        self.by_order: set[int] = set()
        """Numbers of the parameters whose copies are theirs by their order alone."""

    def note(self, optimizer: Optimizer) -> None:
        """Remembers an optimizer with parameters that may be copies."""
        self._optimizers[optimizer] = 0
        self._unsettled = True

    def look(self, recorder: Recorder, stepping: Optimizer | None = None) -> int:
        """Finds what tensors are copies of that have a gradient and that autograd has never reached.

        Args:
            recorder: Knows the parameters.
            stepping: The optimizer that makes a step. None: a backward begins, and the copies of any may hold
                something already.

        Returns:
            How many of these tensors may be copies and equal no parameter, or one that has several.
        """
        strange = self._strange(recorder, stepping)
        held = {id(tensor) for tensor in self._held()} if strange else ()
        free = [watched for watched in _in_order(recorder) if _may_have_copy(watched, held)] if strange else []
        self._tries += bool(free) and stepping is not None
        if free and self._tries <= _TRIES:
            for match in matches(strange, Likeness(free)):
                self._bind(recorder, match)
        left = [tensor for tensor in strange if recorder.stand_ins.found(tensor) is None] if free else []
        return sum(bool(tensor.grad.any()) for tensor in left if tensor.grad is not None)

    def follow(self, stepped: Sequence[Watched]) -> list[Watched]:
        """Notes the gradients that copies are stepped on by; returns the parameters that their copies do not equal."""
        copied = [watched for watched in stepped if watched.id in self._gradients]
        for watched in copied:
            self._gradients[watched.id].note_step()
        equal = [(watched, found) for watched in copied if (found := still_equal(watched)) is not None]
        if not equal or bool(torch.stack([found.cpu() for _, found in equal]).all()):
            return []
        return [watched for watched, found in equal if not found]

    def _strange(self, recorder: Recorder, stepping: Optimizer | None) -> list[Tensor]:
        """What has a gradient and is not known; at most steps one look at what has a gradient tells that nothing is."""
        if stepping is None:
            return [t for t in self._held() if _is_strange(recorder, t)] if self._unsettled else []
        having = hash(tuple(id(tensor) for tensor in self._held(stepping) if tensor.grad is not None))
        if self._optimizers.get(stepping) == having:
            return []
        strange = [tensor for tensor in self._held(stepping) if _is_strange(recorder, tensor)]
        self._optimizers[stepping] = 0 if strange else having
        self._unsettled = bool(strange)
        return strange

    def _held(self, optimizer: Optimizer | None = None) -> Iterator[Tensor]:
        """What an optimizer, or any optimizer, steps on."""
        for one in list(self._optimizers) if optimizer is None else (optimizer,):
            for group in one.param_groups:
                yield from group["params"]

    def _bind(self, recorder: Recorder, match: Match) -> None:
        gradient = _Gradient(match.holder)
        for watched, start in match.parts:
            recorder.stand_ins.add(watched, match.holder, start, watched.sketch.size, whole_weights=True)
            if match.by_order:
                self.by_order.add(watched.id)
            watched.in_copy = functools.partial(gradient.accumulated, watched, start)
            self._gradients[watched.id] = gradient


def _is_strange(recorder: Recorder, tensor: Tensor) -> bool:
    """Whether there is a gradient of something that autograd has never reached."""
    if tensor.grad is None or not is_plain(tensor) or type(tensor.grad) is not Tensor or tensor.grad.is_sparse:
        return False
    known = recorder.by_tensor.get(tensor)
    if known is not None and (known.reached or known.piece is not None):
        return False
    return recorder.stand_ins.found(tensor) is None and tensor.is_floating_point()


def _in_order(recorder: Recorder) -> list[Watched]:
    """All that is watched, in the order in which modules list their parameters, then what no module has."""
    listed = [recorder.by_tensor.get(parameter) for _, parameter in recorder.modules.parameters()]
    return list(dict.fromkeys([watched for watched in listed if watched is not None] + recorder.watched))


def _may_have_copy(watched: Watched, held: Collection[int]) -> bool:
    tensor = watched.tensor()
    if tensor is None or id(tensor) in held or not is_plain(tensor) or not tensor.is_floating_point():
        return False
    if tensor.numel() != watched.sketch.size:  # it is partitioned until it is used
        return False
    return watched.reached and watched.place is None and watched.piece is None and not watched.sparse
