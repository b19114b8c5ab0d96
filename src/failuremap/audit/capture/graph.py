"""Sees every backward pass from torch.autograd's two entrances, and which terms of the loss were not seen.

From the tensor that backward starts at, the graph is followed through plain arithmetic until it meets a marked loss.
What is met instead is a term that no watched loss function made.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from failuremap.audit.capture.layout import whole
from failuremap.audit.capture.recorder import Recorder

_MARK = "failuremap.loss"
# arithmetic between the losses and the tensor that backward starts at
_ARITHMETIC = frozenset(
    """Abs Add Alias AsStrided Cat Clamp ClampMax ClampMin Clone Copy Div Exp Expand Index IndexSelect LinalgVectorNorm
    Log MaskedFill MaskedSelect Max Maximum Mean Min Minimum Mul Narrow Neg Norm Permute Pow Reshape ReshapeAlias
    Rsqrt Select Slice Split SplitWithSizes Sqrt Squeeze Stack Sub Sum T ToCopy Transpose Unbind UnsafeView
    Unsqueeze View Where NanToNum _DDPSink Identity _ToTorchTensor _FromTorchTensor Redistribute""".split()
)
_NODE_LIMIT = 20_000


def mark(loss: Tensor) -> None:
    """Marks the node of the graph that made `loss` as seen."""
    if loss.grad_fn is not None:
        metadata: dict[Any, Any] = loss.grad_fn.metadata  # type: ignore[assignment]
        metadata[_MARK] = True


@dataclass
class Terms:
    """What backward meets on its way from the loss into the model."""

    unseen: list[str]
    """Operations by which it leaves the arithmetic around the losses without having met a marked one."""
    reductions: list[Any]
    """Nodes that sum or average, met first on a way that meets no marked loss."""


def terms(roots: Iterable[Tensor]) -> Terms:
    """Follows the graph from where backward starts; no operation is unseen if all terms were.

    A term on the parameters alone (weight decay written into the loss) ends in the parameters and is no unseen term.
    """
    found: set[str] = set()
    reductions: list[Any] = []
    stack: list[tuple[Any, int, bool]] = [(root.grad_fn, root.output_nr, False) for root in roots if root.grad_fn]
    visited: set[tuple[Any, int]] = set()
    while stack and len(visited) < _NODE_LIMIT:
        node, output, reduced = stack.pop()
        if (node, output) in visited:
            continue
        visited.add((node, output))
        name = node.name().rstrip("0123456789").removeprefix("torch::autograd::").removesuffix("Backward")
        if name == "AccumulateGrad" or _MARK in node.metadata:
            continue
        if name not in _ARITHMETIC:
            found.add(name)
            continue
        if name in ("Sum", "Mean") and not reduced:
            reductions.append(node)
        reduces = reduced or name in ("Sum", "Mean")
        stack += [(following, at, reduces) for following, at in _inputs(node, name, output) if following is not None]
    return Terms(sorted(found), reductions)


def _inputs(node: Any, name: str, output: int) -> tuple[Any, ...]:
    """The nodes behind one output; DDP passes all results of a forward through one node, each as it is."""
    following: tuple[Any, ...] = node.next_functions
    return following[output : output + 1] if name == "_DDPSink" else following


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
    torch.autograd.backward = _delimited(recorder, "backward", torch.autograd.backward)
    torch.autograd.grad = _delimited(recorder, "grad", torch.autograd.grad)


def _delimited(recorder: Recorder, kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not recorder.active:
            return original(*args, **kwargs)
        _begin(recorder, kind, args, kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            recorder.end_backward()

    return run


def _begin(recorder: Recorder, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    unseen: list[str] = []
    path: dict[str, Any] = {}
    try:
        if recorder.depth == 0:
            roots = args[0] if args else kwargs.get("tensors", kwargs.get("outputs", ()))
            listed = [roots] if isinstance(roots, Tensor) else roots or ()
            met = terms(root for root in listed if isinstance(root, Tensor))
            unseen = met.unseen
            if recorder.counts and len(met.reductions) == 1:
                _read_scale(recorder, met.reductions[0])
            path = _path(recorder)
    except Exception as error:
        recorder.note_error("backward", error)
    recorder.begin_backward(kind, unseen, path)


def _path(recorder: Recorder) -> dict[str, Any]:
    """How the forward went through DistributedDataParallel, and whether backward is told to synchronise."""
    wrappers = recorder.modules.data_parallel()
    if not wrappers:
        return {}
    called = [wrapper for wrapper in (ref() for ref, _ in recorder.ddp_forwards) if wrapper is not None]
    return {
        "wrappers": len(wrappers),
        "forwards": len(recorder.ddp_forwards),
        "armed": sum(armed for _, armed in recorder.ddp_forwards),
        "synchronising": any(bool(wrapper.require_backward_grad_sync) for wrapper in called or wrappers),
        "hooks": recorder.comm_hooks,
    }
