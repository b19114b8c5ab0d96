"""Sees every backward pass from torch.autograd's two entrances, and which terms of the loss were not seen.

From the tensor that backward starts at, the graph is followed through plain arithmetic until it meets a marked loss.
What is met instead is a term that no watched loss function made.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._guards import TracingContext

from failuremap.audit.capture.callers import place_of_call
from failuremap.audit.capture.data_parallel import path_of
from failuremap.audit.capture.held.layout import whole
from failuremap.audit.capture.loss import likelihoods as likely
from failuremap.audit.capture.loss import logits
from failuremap.audit.capture.loss.checkpoints import FUNCTION as CHECKPOINT
from failuremap.audit.capture.loss.checkpoints import Checkpoints
from failuremap.audit.capture.loss.unit_tensors import multiplied, not_times_zero
from failuremap.audit.capture.prints import handed
from failuremap.audit.capture.recorder import Recorder

_MARK = "failuremap.loss"
# arithmetic between the losses and the tensor that backward starts at
_ARITHMETIC = frozenset(
    """Abs Add Alias AsStrided Cat Clamp ClampMax ClampMin Clone Copy Div Exp Expand Index IndexSelect LinalgVectorNorm
    Log MaskedFill MaskedScatter MaskedSelect Max Maximum Mean Min Minimum Mul Narrow Neg Norm Permute Pow Relu Reshape
    ReshapeAlias Rsqrt Rsub Select Sigmoid Slice Split SplitWithSizes Sqrt Squeeze Stack Sub Sum T ToCopy Transpose
    Unbind UnsafeView Unsqueeze View Where NanToNum _DDPSink Identity _ToTorchTensor _FromTorchTensor
    Redistribute PreBackwardFunctionForModule PostBackwardFunctionModule""".split()
)
_NODE_LIMIT = 20_000


@dataclass(eq=False)
class Seen:
    """A loss that is seen."""

    arrived: int = -1
    """The pass in which its gradient arrived last."""
    times: float | None = 1.0
    """The number that the script multiplies it by on the way to where backward starts; None where it is learned."""
    within: list[Seen] = field(default_factory=list)
    """What the script has said of losses that it is a part of."""

    def is_told_of(self, number: int) -> bool:
        """Whether the script has said what a loss around it is, which this pass came through."""
        return any(outer.arrived == number for outer in self.within)

    @property
    def factor(self) -> dict[str, Any]:
        """What a trace holds of that number; nothing where it is 1."""
        return {} if self.times == 1 else {"times": self.times}


def mark(loss: Tensor) -> Seen:
    """Marks the node of the graph that made `loss` as seen."""
    seen = Seen()
    if loss.grad_fn is not None:
        metadata: dict[Any, Any] = loss.grad_fn.metadata  # type: ignore[assignment]
        metadata[_MARK] = seen
    return seen


def made_of(loss: Tensor) -> list[Seen]:
    """The losses that one is made of."""
    stack = [] if loss.grad_fn is None else [source for source, _ in loss.grad_fn.next_functions]
    visited: set[Any] = {None}
    found = []
    while stack and len(visited) < _NODE_LIMIT:
        node: Any = stack.pop()
        if node in visited:
            continue
        visited.add(node)
        if is_marked(node):
            found.append(node.metadata[_MARK])
        elif _name_of(node) in _ARITHMETIC:
            stack += [source for source, _ in node.next_functions]
    return found


def is_marked(node: Any) -> bool:
    """Whether a node made a loss that is seen."""
    return _MARK in node.metadata


@dataclass
class Terms:
    """What backward meets on its way from the loss into the model."""

    unseen: list[str]
    """Operations by which it leaves the arithmetic around the losses without having met a marked one."""
    reductions: list[Any]
    """Nodes that sum or average, met first on a way that meets no marked loss."""
    likelihoods: list[likely.Likelihood]
    """Log-probabilities: among them the weights of the units may be read; all are unseen so far."""
    hidden: list[logits.Hidden] = field(default_factory=list)
    """Nodes that may be a cross entropy inside; all are unseen so far."""
    checkpoints: list[Any] = field(default_factory=list)
    """Nodes of reentrant checkpoints; all are unseen so far."""


def terms(roots: Iterable[Tensor]) -> Terms:
    """Follows the graph from where backward starts; no operation is unseen if all terms were.

    A term on the parameters alone (weight decay written into the loss) ends in the parameters and is no unseen term.
    """
    found: set[str] = set()
    reductions: list[Any] = []
    likelihoods: dict[Any, likely.Likelihood] = {}
    gathers: set[Any] = set()
    hidden: dict[Any, str] = {}
    checkpoints: dict[Any, None] = {}
    stack = [_Way(root.grad_fn, root.output_nr) for root in roots if root.grad_fn is not None]
    visited: set[_Way] = set()
    while stack and len(visited) < _NODE_LIMIT:
        way = stack.pop()
        if way in visited:
            continue
        visited.add(way)
        node = way.node
        name = _name_of(node)
        if name == "AccumulateGrad" or is_marked(node):
            if is_marked(node):
                node.metadata[_MARK].times = way.times
            continue
        if name in likely.KINDS and way.output == 0:
            likelihoods[node] = likely.Likelihood(name, node, way.times)
        elif name not in _ARITHMETIC and name != likely.GATHER:
            if logits.may_hide_one(name, node):
                hidden[node] = name
            if way.gather is None or node in hidden:
                found.add(name)
                checkpoints |= {node: None} if name == CHECKPOINT else {}
            else:
                gathers.add(way.gather)
        else:
            reduces = name in ("Sum", "Mean")
            if reduces and not way.reduced and node not in reductions:
                reductions.append(node)
            gather = node if name == likely.GATHER else way.gather
            times = multiplied(node, name, way.times)
            stack += [
                _Way(*edge, way.reduced or reduces, gather, times)
                for edge in _inputs(node, name, way.output)
                if edge[0]
            ]
    settled = _settled(found, reductions, likelihoods, gathers)
    settled.hidden = [logits.Hidden(name, node) for node, name in hidden.items()]
    settled.checkpoints = list(checkpoints)
    return settled


def _name_of(node: Any) -> str:
    return str(node.name()).rstrip("0123456789").removeprefix("torch::autograd::").removesuffix("Backward")


class _Way(NamedTuple):
    """An output of a node, and what lay on the way to it."""

    node: Any
    output: int
    reduced: bool = False
    gather: Any = None
    """The node that picked elements, such as the targets' scores, last on the way."""
    times: float | None = 1.0
    """What the script multiplies by on the way; None where it learns that."""


def _settled(
    found: set[str], reductions: list[Any], likelihoods: dict[Any, likely.Likelihood], gathers: set[Any]
) -> Terms:
    """Elements picked from something else than log-probabilities belong to a logsumexp, or are unseen."""
    names = {one.name for one in likelihoods.values()}
    if "Logsumexp" in names and gathers:
        likelihoods |= {node: likely.Likelihood(likely.GATHER, node) for node in gathers}
        names.add(likely.GATHER)
    elif gathers:
        found.add(likely.GATHER)
    elif "Logsumexp" in names:
        return Terms(sorted(found | names), reductions, [])
    return Terms(sorted(found | names), reductions, list(likelihoods.values()))


def _inputs(node: Any, name: str, output: int) -> Sequence[tuple[Any, int]]:
    """The nodes behind one output; DDP passes all results of a forward through one node, each as it is."""
    following: Sequence[tuple[Any, int]] = node.next_functions
    return following[output : output + 1] if name == "_DDPSink" else not_times_zero(following, name)


def _read_scale(recorder: Recorder, reduction: Any) -> None:
    """Where the script has said how many units there are: what one weighs is what reaches the one sum over them."""
    units = sum(recorder.counts)
    mean = reduction.name().startswith("Mean")
    elements = math.prod(reduction._saved_self_sym_sizes) if mean else 1
    recorder.counts = []

    def arrived(gradients: tuple[Tensor, ...]) -> None:
        try:
            # a log-likelihood is a loss with the sign turned
            reached = whole(gradients[0], "the gradient of a sum over units")
            scale = reached.detach().double().sum().abs() / elements
            event = {"function": "count", "reduction": "sum", "count": units, "scale": scale}
            recorder.on_loss({**event, "site": "failuremap.count", "place": ""})
        except Exception as error:
            recorder.note_error("on_loss", error)

    reduction.register_prehook(arrived)


def install(recorder: Recorder) -> None:
    """Delimits backward passes: torch.autograd.backward (Tensor.backward calls it) and torch.autograd.grad."""
    checkpoints = Checkpoints()
    torch.autograd.backward = _delimited(recorder, checkpoints, "backward", torch.autograd.backward)
    torch.autograd.grad = _delimited(recorder, checkpoints, "grad", torch.autograd.grad)


def _delimited(
    recorder: Recorder, checkpoints: Checkpoints, kind: str, original: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not recorder.active or TracingContext.try_get() is not None:  # the compiler differentiates, not the job
            return original(*args, **kwargs)
        checkpoints.called_from(sys._getframe(1))
        is_apart = recorder.depth > 0 and not (checkpoints.inside or _starts_at_loss(recorder))
        _begin(recorder, checkpoints, kind, args, kwargs)
        losses = [] if recorder.backward is None else recorder.backward.losses
        count = len(losses)
        try:
            return original(*args, **kwargs)
        finally:
            if is_apart:  # a function differentiates something of its own, and what it makes of it nobody sees
                del losses[count:]
            recorder.end_backward()

    return run


def _starts_at_loss(recorder: Recorder) -> bool:
    return recorder.depth == 1 and recorder.backward is not None and recorder.backward.starts_at_loss


def _keep(recorder: Recorder, roots: list[Tensor]) -> None:
    if recorder.keeping is not None and not recorder.depth:
        recorder.keeping.start_at(roots)


def _begin(
    recorder: Recorder, checkpoints: Checkpoints, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    unseen: list[str] = []
    path: dict[str, Any] = {}
    try:
        outer = recorder.backward if recorder.depth == 1 else None
        inner = recorder.depth > 0 and checkpoints.inside
        if recorder.depth == 0 or inner or _starts_at_loss(recorder):
            roots = args[0] if args else kwargs.get("tensors", kwargs.get("outputs", ()))
            listed = [roots] if isinstance(roots, Tensor) else roots or ()
            tensors = [root for root in listed if isinstance(root, Tensor)]
            _keep(recorder, tensors)
            met = terms(tensors)
            unseen = met.unseen
            if recorder.counts:  # what the script says goes before what can be read
                if len(met.reductions) == 1 and not inner:
                    _read_scale(recorder, met.reductions[0])
            else:
                likely.watch(recorder, met.likelihoods, likely.Pass(tensors, unseen, place_of_call()), is_marked)
                logits.watch(recorder, met.hidden, unseen, place_of_call())
            if inner:
                checkpoints.add(unseen)
            elif met.checkpoints:
                checkpoints.expect(met.checkpoints, unseen)
            if outer is not None and not inner:
                outer.unseen, outer.starts_at_loss = unseen, False
        if recorder.depth == 0:
            path = path_of(recorder)
        elif outer is not None and outer.stage is not None:
            outer.path = path_of(recorder)
    except Exception as error:
        recorder.note_error("backward", error)
    recorder.begin_backward(kind, unseen, path)
    _note_handed(recorder, kind, args, kwargs)


def _note_handed(recorder: Recorder, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Notes what a pass starts from, where that is a gradient that another stage may have sent."""
    try:
        if recorder.depth == 1 and recorder.backward is not None and not recorder.stages.known:
            recorder.backward.received = handed(kind, args, kwargs)
    except Exception as error:
        recorder.note_error("handed", error)
