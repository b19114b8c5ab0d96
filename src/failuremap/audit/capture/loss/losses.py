"""Watches torch's loss functions: how many units each call counted, and the scale that backward sent into it.

    mean  L = sum_i w_i l_i / sum_i w_i   a unit's loss weight is  s w_i / sum w   (s: the gradient that reached L)
    sum   L = sum_i w_i l_i               a unit's loss weight is  s w_i
    none  one value a unit                a unit's loss weight is the gradient that reached its value

The result of a call is marked in the autograd graph, so that `graph.terms` can tell what backward reached by
another way.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.hooks import unserializable_hook

from failuremap.audit.capture.callers import place_of_call
from failuremap.audit.capture.held.layout import is_distributed, whole
from failuremap.audit.capture.loss.graph import Seen, is_marked, mark
from failuremap.audit.capture.recorder import Recorder

# by elements: the mean divides by all elements of the result
_ELEMENTWISE = (
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "kl_div", "gaussian_nll_loss", "poisson_nll_loss", "soft_margin_loss", "margin_ranking_loss",
    "hinge_embedding_loss",
)  # fmt: skip
# by examples: the mean divides by the size of the batch
_BY_EXAMPLE = (
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "cosine_embedding_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss", "ctc_loss",
)  # fmt: skip
_CLASSES = ("cross_entropy", "nll_loss")
_FINGERPRINT = 65536


def install(recorder: Recorder) -> None:
    """Wraps every loss function of torch.nn.functional; the modules in torch.nn call through them."""
    for name in (*_ELEMENTWISE, *_BY_EXAMPLE, *_CLASSES):
        original = getattr(F, name, None)
        if original is not None:
            setattr(F, name, _watching(recorder, name, original))


def _watching(recorder: Recorder, name: str, original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def loss(*args: Any, **kwargs: Any) -> Tensor:
        result = original(*args, **kwargs)
        if torch.compiler.is_compiling():
            return result
        if recorder.active and isinstance(result, Tensor) and result.requires_grad and not _is_seen(result):
            try:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                watch_call(recorder, name, _here(bound.arguments), result)
            except Exception as error:
                recorder.note_error(name, error)
        return result

    return loss


def watch_call(recorder: Recorder, name: str, given: dict[str, Any], result: Tensor) -> None:
    """Watches the result of a loss function.

    Args:
        recorder: Where its event goes.
        name: The function of torch.nn.functional that it is, or is like.
        given: Its arguments, named as that function's; of `input` the shape alone is read.
        result: What it returned.
    """
    event = _described(name, given, result)
    if recorder.keeping is not None:
        recorder.keeping.add_target(given.get("target"))
    watch_result(recorder, result, event, _units(name, given, event["reduction"]))


def _is_seen(result: Tensor) -> bool:
    """Whether a call within the call has seen it: torch makes one where a mode is on, such as a default device."""
    return result.grad_fn is not None and is_marked(result.grad_fn)


def _here(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with this rank's numbers in place of DTensors; of the scores the shape alone is read."""
    return {
        name: whole(value, f"the loss's {name}") if is_distributed(value) and name != "input" else value
        for name, value in arguments.items()
    }


def watch_result(recorder: Recorder, result: Tensor, event: dict[str, Any], units: Tensor | None = None) -> Seen:
    """Puts a hook on a loss's result that completes `event` when the gradient arrives, and marks it as seen.

    Args:
        recorder: Where the event goes.
        result: What the loss function returned.
        event: What is known of the call; `unit_shape` is (rows, length) where units stand in a table.
        units: Without a reduction: how much each element of the result counts, 0 for one that is ignored.
    """
    event["site"], event["place"] = place_of_call()
    shape = event.pop("unit_shape", None)
    seen = mark(result)

    def arrived(gradient: Tensor) -> None:
        try:
            seen.arrived = recorder.backward_count
            if seen.is_told_of(recorder.backward_count):
                return
            with torch.no_grad():
                found = whole(gradient, "the gradient of a loss").detach().double()
                if event["reduction"] == "none":
                    recorder.on_loss({**event, **seen.factor, **_unit_scales(found, units, shape)})
                else:
                    recorder.on_loss({**event, **seen.factor, "scale": found.sum()})
        except Exception as error:
            recorder.note_error("on_loss", error)

    result.register_hook(unserializable_hook(arrived))
    return seen


def _unit_scales(gradient: Tensor, units: Tensor | None, shape: tuple[int, ...] | None) -> dict[str, Any]:
    """What reached the units of a loss without reduction: in all, the extremes, and row by row."""
    counted = torch.ones_like(gradient) if units is None else units.to(gradient.dtype).reshape(gradient.shape)
    live = (gradient.abs() > 0) & (counted > 0)  # not nan, either: a mean over nothing reaches no unit
    found = {"scale": (gradient * counted).sum(), "nonzero": (counted * live).sum(), **_extremes(gradient, live, "")}
    table = shape if shape is not None else tuple(gradient.shape)
    if len(table) > 1:
        by_row = (gradient * counted).reshape(table).flatten(1).sum(1)
        found |= {"rows": (by_row != 0).sum(), **_extremes(by_row, by_row != 0, "row_")}
    return found


def _extremes(values: Tensor, live: Tensor, prefix: str) -> dict[str, Tensor]:
    sizes = values.abs()
    if not sizes.numel():
        return {}
    return {f"{prefix}smallest": torch.where(live, sizes, torch.inf).min(), f"{prefix}largest": (sizes * live).max()}


def _described(name: str, arguments: dict[str, Any], result: Tensor) -> dict[str, Any]:
    reduction = str(arguments.get("reduction", "mean"))
    target = arguments.get("target")
    event: dict[str, Any] = {"function": name, "reduction": "mean" if reduction == "batchmean" else reduction}
    event.update(_counted(name, reduction, arguments, result))
    if isinstance(target, Tensor):
        event["fingerprint"] = _fingerprint(target)
        event["elements"] = target.numel() if not target.is_floating_point() else event["count"]
        event["unit_shape"] = _unit_shape(target)
        if event["unit_shape"] is not None and "rows" not in event:
            event["rows"] = event["unit_shape"][0]
    return event


def _counted(name: str, reduction: str, arguments: dict[str, Any], result: Tensor) -> dict[str, Any]:
    """The units behind a call, and the sum of the class weights where there are any."""
    target, scores = arguments.get("target"), arguments.get("input")
    if name in _CLASSES and isinstance(target, Tensor) and isinstance(scores, Tensor):
        classes = scores.shape[1 if scores.dim() > 1 else 0]
        if target.is_floating_point():
            return {"count": target.numel() // classes, "classes": classes}
        valid = target != arguments["ignore_index"]
        counted: dict[str, Any] = {"count": valid.sum(), "classes": classes}
        if arguments.get("weight") is not None:
            counted["weight_sum"] = arguments["weight"].detach()[target[valid]].double().sum()
        return counted
    if name in _BY_EXAMPLE or reduction == "batchmean":
        first = next(value for value in arguments.values() if isinstance(value, Tensor))
        batch = arguments["target_lengths"] if name == "ctc_loss" else first
        return {"count": int(batch.shape[0]) if isinstance(batch, Tensor) and batch.dim() else 1}
    tensors = [value.shape for value in (scores, target) if isinstance(value, Tensor)]
    return {"count": torch.broadcast_shapes(*tensors).numel() if tensors else result.numel()}


def _units(name: str, arguments: dict[str, Any], reduction: str) -> Tensor | None:
    """How much each element of an unreduced loss over classes counts: 0 where ignored, the weight of its class."""
    target = arguments.get("target")
    if reduction != "none" or name not in _CLASSES or not isinstance(target, Tensor) or target.is_floating_point():
        return None
    valid = target != arguments["ignore_index"]
    weight = arguments.get("weight")
    units: Tensor = valid if weight is None else weight.detach()[torch.where(valid, target, 0)] * valid
    return units


def _unit_shape(target: Tensor) -> tuple[int, ...] | None:
    """(sequences, length) where the targets are, or were before `.view(-1)`, a table; else None."""
    if target.dim() > 1:
        return tuple(target.shape)
    base = target._base
    if base is not None and base.dim() > 1 and base.numel() == target.numel():
        return tuple(base.shape)
    return None


def _fingerprint(target: Tensor) -> Tensor:
    """One number that two different batches are very unlikely to share."""
    flat = target.detach().reshape(-1)[:_FINGERPRINT].double()
    return (flat * torch.linspace(1, 2, flat.numel(), dtype=torch.float64, device=flat.device)).sum()
