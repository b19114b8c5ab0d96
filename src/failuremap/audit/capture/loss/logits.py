"""Reads what a unit weighs in a loss whose inside is hidden, from the gradient at the logits.

    L = sum_i w_i * (-log softmax(z_i)[t_i])    =>    dL/dz_i = w_i (softmax(z_i) - onehot(t_i))

A row of it has one negative number, at the target, and goes by the softmax everywhere else: that is checked in every
row before anything is concluded. So are the weights: where they differ in a pass, the loss weighs its units by numbers
of its own. The softmax is what the node saved for its backward, be it the probabilities or the logits. What is saved
through hooks (checkpointing, offloading) is left alone: it can be fetched only once, and that is the job's.

Where the function has called a collective, it may have a part of the classes alone, as with vocabularies that are split
over ranks. Then the target is on another rank in some rows, and these go by the softmax everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from failuremap.audit.capture.loss import ahead, fused
from failuremap.audit.capture.loss.likelihoods import event_of, signed
from failuremap.audit.capture.recorder import Recorder

SOFTMAX = "Softmax"
FUNCTION = "cross_entropy_at_logits"
# with two classes every loss has such a gradient
_FEWEST_CLASSES = 3
# roundings of float32 that exp and the sums of a softmax bring; half precision rounds the result alone, twice at most
_ROUNDINGS, _ROUNDINGS_OF_HALF = 16, 2
# relative error of a weight beyond which its row says nothing
_COARSE = 0.2
_NO_HOOK = object()


class Hidden(NamedTuple):
    """A node that may be a cross entropy, and what it is called among the unseen terms."""

    name: str
    node: Any


def may_hide_one(name: str, node: Any) -> bool:
    """Whether a node is a softmax, or a function of the script's own of which something says what a softmax may be."""
    if name == SOFTMAX:
        return _is_held(getattr(node, "_raw_saved_result", None))
    return ahead.left_with(node) is not None or _holds(node)


def _holds(node: Any) -> bool:
    saved: tuple[Any, ...] = getattr(node, "_raw_saved_tensors", None) or ()
    return bool(saved) and all(map(_is_held, saved))


def watch(recorder: Recorder, hidden: list[Hidden], unseen: list[str], place: tuple[str, str]) -> None:
    """Reads the weights of the units of a pass when the gradients of these nodes are known.

    Args:
        recorder: Where the losses go.
        hidden: Nodes that the pass meets where it leaves the arithmetic around its losses.
        unseen: The unseen terms of the pass; a name leaves it when all nodes that have it are understood.
        place: Where the pass was started.
    """
    names = [name for name, _ in hidden]
    for name, node in hidden:
        reading = _Reading(recorder, name, names, unseen, place)
        reading.dim = signed(node._saved_dim) if name == SOFTMAX else -1
        reading.handles = [node.register_prehook(reading.before(node)), node.register_hook(reading.after)]


class _Reading:
    """One node: what its softmax is, before its backward may overwrite it, and the gradient that comes out."""

    def __init__(
        self, recorder: Recorder, name: str, waiting: list[str], unseen: list[str], place: tuple[str, str]
    ) -> None:
        self.recorder, self.name, self.waiting, self.unseen, self.place = recorder, name, waiting, unseen, place
        self.handles: list[Any] = []
        self.saved: list[Tensor] = []
        self.head: fused.Head | None = None
        self.kept: ahead.Kept | None = None
        self.dim = -1

    def before(self, node: Any) -> Any:
        """The hook that runs before the node."""

        self.kept = ahead.left_with(node)

        def hook(_: tuple[Tensor, ...]) -> None:
            if self.kept is not None and (head := fused.head_behind(self.kept)) is not None:
                self.head = head
                return
            if self.name != SOFTMAX and not _holds(node):
                return
            try:
                kept = [] if self.name == SOFTMAX else [raw.unpack() for raw in node._raw_saved_tensors]
                self.head = fused.head_of(
                    node, [tensor for tensor in kept if type(tensor) in (Tensor, torch.nn.Parameter)]
                )
                self.saved = _saved(self.name, node) if self.head is None else []
            except Exception:  # changed in place, or freed: whatever the job says of it, nothing can be read
                self.saved, self.head = [], None

        return hook

    def after(self, gradients: tuple[Tensor | None, ...], reached: tuple[Tensor | None, ...]) -> None:
        """The hook that runs after the node."""
        try:
            for handle in self.handles:
                handle.remove()
            with torch.no_grad():
                if self.head is not None:
                    weights = fused.weights_of(gradients[self.head.place], reached, self.head)
                    classes, parts, function = len(self.head.weight), 1, fused.FUNCTION
                else:
                    weights, classes, parts = self._fit(gradients, reached)
                    function = FUNCTION
            if weights is not None:
                self._tell(function, weights, classes * parts, reached)
        except Exception as error:
            self.recorder.note_error("on_loss", error)
        finally:
            self.saved, self.head, self.kept = [], None, None

    def _fit(
        self, gradients: tuple[Tensor | None, ...], reached: tuple[Tensor | None, ...]
    ) -> tuple[Tensor | None, int, int]:
        """The weights, the classes that are here, and over how many ranks all of them are."""
        given = [gradient for gradient in gradients if type(gradient) is Tensor and gradient.dim()]
        laid = [[tensor.movedim(self.dim, -1) for tensor in tensors] for tensors in (given, self.saved)]
        found, parts = _first_fit(*laid), 1
        if found is None and (parts := self._parts()):
            found = _first_fit([gradient for gradient in given if gradient.dim() > 1], self.saved, of_part=True)
        if found is None and self.kept is not None and all(map(fused.is_even, reached)):
            found, parts = _fit_of_rows(gradients[self.kept.place], self.kept), 1
        return (None, 0, 0) if found is None else (*found, parts)

    def _parts(self) -> int:
        """Over how many ranks the function has called a collective; 0 where it has called none."""
        return max((len(alike.group) for alike in self.recorder.calls.entries if alike.by == self.name), default=0)

    def _tell(self, function: str, weights: Tensor, classes: int, reached: tuple[Tensor | None, ...]) -> None:
        self.waiting.remove(self.name)
        if self.name not in self.waiting and self.name in self.unseen:
            self.unseen.remove(self.name)
        event = {**event_of(function, classes, weights, self.place), "hidden_in": self.name}
        if self.name != SOFTMAX and type(one := reached[0]) is Tensor and one.numel() == 1:
            event["arrived"] = one.detach().double().sum()
        self.recorder.on_loss(event)


def _is_held(saved: Any) -> bool:
    """Whether a saved tensor is kept as it is; older versions of torch do not say."""
    return saved is not None and getattr(saved, "unpack_hook", _NO_HOOK) is None


def _saved(name: str, node: Any) -> list[Tensor]:
    """Probabilities or logits; of a function of the script's own copies: it may reuse them."""
    if name == SOFTMAX:
        return [node._saved_result.detach()]
    shapes = {tuple(source._input_metadata[output].shape) for source, output in node.next_functions if source}
    found = [raw.unpack() for raw in node._raw_saved_tensors]
    return [
        tensor.detach().clone()
        for tensor in found
        if type(tensor) is Tensor and tensor.is_floating_point() and tensor.dim() > 1 and tuple(tensor.shape) in shapes
    ]


def _fit_of_rows(gradient: Tensor | None, kept: ahead.Kept) -> tuple[Tensor, int] | None:
    """The same, from the rows that were kept of the logits."""
    if type(gradient) is not Tensor:
        return None
    rows = gradient.flatten(0, -2)
    tried = weights_of(rows[kept.places], kept.rows)
    if tried is None:
        return None
    return ((rows != 0).any(1).double() * tried.max()).reshape(gradient.shape[:-1]), rows.shape[1]


def _first_fit(gradients: list[Tensor], saved: list[Tensor], *, of_part: bool = False) -> tuple[Tensor, int] | None:
    for gradient in gradients:
        for kept in saved:
            if gradient.shape == kept.shape and kept.shape[-1] >= _FEWEST_CLASSES:
                weights = (weights_of_part if of_part else weights_of)(gradient.detach(), kept)
                if weights is not None:
                    return weights, kept.shape[-1]
    return None


def weights_of(gradient: Tensor, saved: Tensor) -> Tensor | None:
    """The weight of each row, 0 where it is masked; None where the gradient is not that of a cross entropy.

    Args:
        gradient: At the logits; the classes are last.
        saved: The logits, or their softmax.
    """
    rounding = max(map(_rounding, (gradient.dtype, saved.dtype)))
    rows, probabilities = gradient.flatten(0, -2).double(), saved.flatten(0, -2).double()
    sums = probabilities.sum(1)
    if not bool(((probabilities >= 0).all()) & ((sums - 1).abs() <= _COARSE).all()):
        probabilities = probabilities.softmax(1)
    fit = _fitted(rows, probabilities, rounding)
    if fit is None or not bool((fit.errors <= _COARSE).all()):
        return None
    return (fit.live.double() * fit.weight).reshape(gradient.shape[:-1])


def weights_of_part(gradient: Tensor, saved: Tensor) -> Tensor | None:
    """The same where the classes are some of all, and the target may be another.

    Args:
        gradient: At the logits of these classes, which are last.
        saved: Their probabilities, among all classes.
    """
    rounding = max(map(_rounding, (gradient.dtype, saved.dtype)))
    rows, probabilities = gradient.flatten(0, -2).double(), saved.flatten(0, -2).double()
    if not bool((probabilities >= 0).all() & (probabilities.sum(1) <= 1 + _COARSE).all()):
        return None
    fit = _fitted(rows, probabilities, rounding, some=True)
    if fit is None or not bool((fit.errors <= _COARSE).any()):
        return None
    return (fit.live.double() * fit.weight).reshape(gradient.shape[:-1])


class _Fit(NamedTuple):
    live: Tensor
    weight: Tensor
    errors: Tensor
    """Relative error of the weight, for each row that is live."""


def _fitted(rows: Tensor, probabilities: Tensor, rounding: float, *, some: bool = False) -> _Fit | None:
    """The one weight with which all rows go by the softmax; None where some do not."""
    live = (rows != 0).any(1)
    if not bool(live.any()) or bool((~live & (probabilities.max(1).values > 1 - fused.CERTAIN)).any()):
        return None
    rows, directions = rows[live], probabilities[live]
    at, lowest = torch.arange(len(rows), device=rows.device), rows.min(1)
    directions[at, lowest.indices] -= (lowest.values < 0).double() if some else 1.0
    squares = directions.square().sum(1)
    errors = rounding / squares.sqrt()
    weights = (rows * directions).sum(1) / squares
    common = (rows * directions).sum() / squares.sum()
    misfit = (rows - weights[:, None] * directions).square().sum(1).sqrt()
    fits = (misfit <= rounding * common) & ((weights - common).abs() <= errors * common)
    return _Fit(live, common, errors) if bool((common > 0) & fits.all()) else None


def _rounding(dtype: torch.dtype) -> float:
    """What rounding may make of a row, as a part of its weight."""
    half = dtype in (torch.bfloat16, torch.float16)
    return torch.finfo(dtype).eps * (_ROUNDINGS_OF_HALF if half else _ROUNDINGS)
