"""Sees what an optimizer steps on: every gradient as it is when the step begins, and what clipped it before."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from failuremap.audit.capture import collectives
from failuremap.audit.capture.clipped import some_of
from failuremap.audit.capture.held.layout import Layout, local, whole
from failuremap.audit.capture.held.scalers import factor_left
from failuremap.audit.capture.rates import rates
from failuremap.audit.capture.recorder import Recorder, quiet
from failuremap.audit.capture.sketches.pieces import Piece, together
from failuremap.audit.capture.sketches.sketch import square_of
from failuremap.audit.capture.watching import Watched, is_readable
from failuremap.audit.trace import as_runs


def install(recorder: Recorder) -> None:
    """Observes every step of every torch optimizer, and torch's own clipping functions."""

    def before_step(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        recorder.heed()
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if not callable(closure):
            _observe_last(recorder, optimizer)
            return None
        # forward and backward run inside step: the gradient is there only when the closure has returned
        observed = _observing(recorder, optimizer, closure)
        if len(args) > 1:
            return (args[0], observed, *args[2:]), kwargs
        return args, dict(kwargs, closure=observed)

    recorder.step_hook = register_optimizer_step_pre_hook(before_step)
    for name in ("clip_grad_norm_", "clip_grads_with_norm_", "clip_grad_value_"):
        _watch_clip(recorder, name)


@quiet
def tell(recorder: Recorder) -> None:
    """Notes that somebody has removed the hook by which steps are seen."""
    hook = recorder.step_hook
    if recorder.writer is not None and hook is not None and hook.id not in (hook.hooks_dict_ref() or ()):
        recorder.note_error(
            "on_step", RuntimeError("the hooks of all optimizers were removed: later steps went unseen")
        )


def _observing(recorder: Recorder, optimizer: Optimizer, closure: Callable[[], Any]) -> Callable[[], Any]:
    @functools.wraps(closure)
    def observed(*args: Any, **kwargs: Any) -> Any:
        result = closure(*args, **kwargs)
        on_step(recorder, optimizer)
        return result

    return observed


def _observe_last(recorder: Recorder, optimizer: Optimizer) -> None:
    """Observes after the optimizer's own pre-hooks, which may still reduce or clip."""
    hooks = getattr(optimizer, "_optimizer_step_pre_hooks", None)
    if not hooks:
        on_step(recorder, optimizer)
        return
    key = "failuremap"
    hooks.pop(key, None)
    hooks[key] = lambda optimizer, args, kwargs: on_step(recorder, optimizer)


@quiet
def on_step(recorder: Recorder, optimizer: Optimizer) -> None:
    """Writes down the update of one optimizer step, and the weights that it starts from."""
    recorder.flush_backward()
    collectives.tell(recorder)
    recorder.stand_ins.announce(optimizer)
    settled = recorder.sampling.in_part or recorder.stand_ins.unread(optimizer)
    unmatched = 0 if settled else recorder.copies.look(recorder, optimizer)
    stepper = recorder.stepper(recorder.stand_ins.stepping(optimizer))
    if recorder.keeping is not None:
        recorder.keeping.on_step(stepper)
    in_part = recorder.sampling.is_in_part(stepper)
    found = _found(recorder, optimizer, in_part)
    new = in_part and (found.new or stepper.count == 0)
    if in_part:
        if new or len(found.present) < len(recorder.sampling.chosen(stepper.number)):
            recorder.sampling.restart(new=new)
    else:
        recorder.sampling.choose(stepper.number, found.present)
    if not in_part or recorder.sampling.chosen(stepper.number) or new:
        fields: dict[str, Any] = {"optimizer": stepper.number, "count": stepper.count}
        fields |= {"absent": found.absent, "unwatched": found.unwatched}
        fields |= {"in_part": True, "unread": recorder.sampling.unread - stepper.unread} if in_part else {}
        fields |= {"new": True} if new else {}
        fields |= {"unmatched": unmatched} if unmatched else {}
        fields |= _of_copies(recorder, found.present)
        _write_step(recorder, fields, found.present, optimizer)
    recorder.after_step(stepper)


def _of_copies(recorder: Recorder, present: list[Watched]) -> dict[str, Any]:
    """The parameters whose copies do not equal them, and those whose copies are theirs by their order alone."""
    apart = recorder.copies.follow(present)
    by_order = [watched.id for watched in present if watched.id in recorder.copies.by_order]
    told: dict[str, Any] = {"unlike": [recorder.modules.name(watched.tensor()) for watched in apart]} if apart else {}
    return told | ({"by_order": by_order} if by_order else {})


@dataclass
class _Found:
    """What an optimizer finds when it steps."""

    present: list[Watched] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    unwatched: list[str] = field(default_factory=list)
    new: bool = False
    """Whether there is a gradient of a parameter that was never read."""


def _found(recorder: Recorder, optimizer: Optimizer, in_part: bool) -> _Found:
    found = _Found()
    if why := recorder.stand_ins.unread(optimizer):
        found.unwatched.append(why)
        return found
    for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
        standing_for = recorder.stand_ins.found(parameter)
        watched = recorder.watch(parameter) if standing_for is None else None
        if standing_for is None and watched is None:
            found.unwatched += [_type_of(parameter)] if parameter.grad is not None else []
        for one in standing_for or ([] if watched is None else [watched]):
            _sort_in(recorder, found, one, in_part)
    return found


def _type_of(parameter: Tensor) -> str:
    return str(parameter.dtype).removeprefix("torch.") if parameter.is_complex() else type(parameter).__name__


def _sort_in(recorder: Recorder, found: _Found, watched: Watched, in_part: bool) -> None:
    """Puts a parameter to those that have a gradient, or to those that have none."""
    if in_part and not watched.chosen:
        found.new |= not watched.named and watched.stepped_on() is not None
        return
    gradient = watched.stepped_on()
    if gradient is None or not is_readable(gradient):
        tensor = watched.tensor()
        found.absent.append(recorder.modules.name(tensor) or f"parameter {watched.id}")
        found.unwatched += [type(gradient).__name__] if gradient is not None else []
    else:
        found.present.append(watched)


def _write_step(recorder: Recorder, fields: dict[str, Any], present: list[Watched], optimizer: Optimizer) -> None:
    in_part = "in_part" in fields
    whole = fields["count"] == 0
    updates, weights = [], []
    lengths = Lengths()
    for watched in present:
        gradient, (tensor, _) = watched.stepped_on(), watched.weights()
        assert gradient is not None and tensor is not None
        piece = watched.read(gradient, "update")
        updates.append(_unscaled(piece, optimizer))
        weights.append(watched.read(tensor, "weights") if whole else watched.sample(tensor, "weights"))
        if not in_part:
            lengths.add(local(gradient), piece.square, watched.layout("update"))
    payload = together(updates + weights) if present else None
    ids = [watched.id for watched in present]
    fields |= {"parameters": ids, "weights": "sketch" if whole else "coordinates", **lengths.fields()}
    fields["rates"] = rates(optimizer, present)
    recorder.write({"kind": "step", **fields}, payload, ids)


class Lengths:
    """The length of the whole update, by which clipping written by hand is known."""

    def __init__(self) -> None:
        self._squares: dict[tuple[int, ...], list[Tensor | float]] = {}
        self._small: dict[tuple[int, ...], list[Tensor]] = {}
        self._known = True

    def add(self, gradient: Tensor, square: Tensor | float | None, layout: Layout | None) -> None:
        """Takes in this rank's part of one gradient, and the sum of its squares, where it is known."""
        self._known &= not gradient.is_sparse and (layout is None or layout.disjoint)
        if self._known:
            parts = () if layout is None else layout.parts
            if square is not None:
                self._squares.setdefault(parts, []).append(square)
            else:
                self._small.setdefault(parts, []).append(gradient.reshape(-1))

    def fields(self) -> dict[str, Any]:
        """The length; where shards are on other ranks, too, the lengths of what is here, and which ranks these are."""
        for parts, flat in self._small.items() if self._known else ():
            self._squares.setdefault(parts, []).extend(square_of(torch.cat(one)) for one in _by_kind(flat))
        if not self._known or not self._squares:
            return {"norm": None}
        found = {parts: _root(squares) for parts, squares in self._squares.items()}
        if list(found) == [()]:
            return {"norm": found[()]}
        return {"norm": None, "norms": [{"parts": as_runs(parts), "norm": norm} for parts, norm in found.items()]}


def _by_kind(tensors: list[Tensor]) -> list[list[Tensor]]:
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    return list(kinds.values())


def _root(squares: list[Tensor | float]) -> float:
    tensors = [square for square in squares if isinstance(square, Tensor)]
    if len({square.device for square in tensors}) > 1:
        tensors = [square.cpu() for square in tensors]
    # one transfer for all that lie on another device
    found = torch.stack([square.double() for square in tensors]).sum().item() if tensors else 0.0
    return math.sqrt(found + sum(square for square in squares if not isinstance(square, Tensor)))


def _unscaled(piece: Piece, optimizer: Optimizer) -> Piece:
    """A fused optimizer under GradScaler divides by the scale inside its kernel; do the same."""
    scale = getattr(optimizer, "grad_scale", None)
    return piece.over(scale) if isinstance(scale, Tensor) else piece


def _watch_clip(recorder: Recorder, name: str) -> None:
    original = getattr(torch.nn.utils, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        listed = parameters if isinstance(parameters, Tensor) else list(parameters)
        if name == "clip_grad_value_":
            limit = kwargs.get("clip_value", args[0] if args else None)
            on_value_clip(recorder, [listed] if isinstance(listed, Tensor) else listed, limit)
        result = original(listed, *args, **kwargs)
        if name != "clip_grad_value_":
            on_norm_clip(recorder, name, result, args, kwargs, [listed] if isinstance(listed, Tensor) else listed)
        return result

    for module in (clip_grad, torch.nn.utils):
        if getattr(module, name, None) is original:
            setattr(module, name, clip)


@quiet
def on_norm_clip(
    recorder: Recorder,
    name: str,
    result: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    clipped: Sequence[Tensor] = (),
) -> None:
    """Writes down the norm that was used and the limit, so that the factor is known, and of which parameters."""
    limit = kwargs.get("max_norm", args[0] if args else None)
    norm: Any = result if isinstance(result, Tensor) else kwargs.get("total_norm", args[1] if len(args) > 1 else None)
    if limit is None or not is_readable(norm):
        return
    used = whole(norm, "the norm that gradients are clipped by").item()
    recorder.flush_backward()
    scale = factor_left(recorder)
    left: dict[str, Any] = {"scale": scale} if scale != 1.0 else {}
    ids = some_of(recorder, clipped) if clipped else None
    left |= {} if ids is None else {"parameters": ids}
    recorder.write({"kind": "clip", "function": name, "norm": used, "limit": float(limit), **left}, None, ids)


def _gradients(recorder: Recorder, parameter: Tensor) -> list[tuple[Watched | None, Tensor | None]]:
    """The gradient of a tensor that an optimizer steps on, by the parameters that it is of."""
    standing_for = recorder.stand_ins.found(parameter)
    if standing_for is None:
        return [(recorder.by_tensor.get(parameter), parameter.grad)]
    return [(watched, watched.stepped_on()) for watched in standing_for]


@quiet
def on_value_clip(recorder: Recorder, parameters: Iterable[Tensor], limit: Any) -> None:
    """Writes down the gradients before a clip by value, which no coefficients describe."""
    recorder.flush_backward()
    recorder.copies.look(recorder)
    pairs = [pair for parameter in parameters for pair in _gradients(recorder, parameter)]
    known = [
        (watched, grad) for watched, grad in pairs if watched is not None and grad is not None and is_readable(grad)
    ]
    if recorder.sampling.in_part:
        known = [(watched, grad) for watched, grad in known if watched.chosen]
    if known:
        ids = [watched.id for watched, _ in known]
        payload = together([watched.read(grad, "update") for watched, grad in known])
        recorder.write({"kind": "value-clip", "parameters": ids, "limit": float(limit)}, payload, ids)
