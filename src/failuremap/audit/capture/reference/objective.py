"""Calls the user's objective and holds it to what it promises: a sum and its count, and the same again."""

from __future__ import annotations

import math
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from failuremap.audit.capture.batches import Batch, Call, tensors, twice
from failuremap.audit.capture.reference import Refused
from failuremap.audit.capture.reference.rebuild import set_buffers
from failuremap.audit.fitting.fit import EPSILON

# C of C^depth, the growth of a rounding from layer to layer, as Megatron-LM's comparison of gradients has it
_GROWTH = 1.03
# relative differences of a loss up to which it counts as doubled: that of sums in bfloat16
_DOUBLED = 0.02
_RETURNS = "it is to return the sum of the losses of the units in the batch, and their number: (loss_sum, count)"


@dataclass(frozen=True)
class Result:
    """What the objective gave for one batch."""

    gradients: dict[str, Tensor]
    loss: float
    count: float


class Objective:
    """The function of the reference, on one model.

    Args:
        function: `objective(model, batch) -> (loss_sum, count)`.
        path: Its file, to say where it raises.
        model: With the weights of a window.
        buffers: What the model's buffers are before each call.
    """

    def __init__(self, function: Callable[..., Any], path: Path, model: nn.Module, buffers: dict[str, Tensor]) -> None:
        self._function, self._path, self.model, self._buffers = function, path, model, buffers
        self._types: set[torch.dtype] = set()

    def __call__(self, batch: Any, seed: int = 0) -> Result:
        """The gradient of the sum, with the random numbers of a seed."""
        set_buffers(self.model, self._buffers)
        self.model.zero_grad(set_to_none=True)
        loss, count = self._evaluate(batch, seed)
        try:
            loss.backward()
        except Exception as error:
            told = f"{type(error).__name__}: {str(error).partition('. ')[0][:200]}"
            raise Refused(f"the loss that {self._function.__name__} returned can't go backward: {told}") from error
        found = {
            name: (p.grad.to_dense() if p.grad.is_sparse else p.grad).detach().clone()
            for name, p in self.model.named_parameters()
            if p.grad is not None
        }
        self.model.zero_grad(set_to_none=True)
        if not all(bool(torch.isfinite(gradient).all()) for gradient in found.values()):
            raise Refused("the gradients of the reference are not finite (nan or inf)")
        return Result(found, float(loss.detach()), count)

    def _evaluate(self, batch: Any, seed: int) -> tuple[Tensor, float]:
        _seed(seed)
        name, before = self._function.__name__, _state(self.model)
        try:
            with _Types(self._types):
                returned = self._function(self.model, batch)
        except (Exception, SystemExit) as error:
            raise Refused(f"{name} raised {where_raised(error, self._path)}{_left_out(batch, error)}") from error
        changed = next((what for what, value in _state(self.model).items() if before.get(what) != value), None)
        if changed is not None:
            raise Refused(
                f"{name} changes the model ({changed}): it is to compute a loss of the model as the job had it"
            )
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            raise Refused(f"{name} returned a {type(returned).__name__} and no pair; {_RETURNS}")
        loss, count = returned
        if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
            what = f"of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
            what = "without a gradient" if isinstance(loss, Tensor) and loss.numel() == 1 else what
            raise Refused(f"the loss that {name} returned is {what}, not one number with a gradient; {_RETURNS}")
        try:
            number = float(count)
        except (TypeError, ValueError):
            what = f"of shape {tuple(count.shape)}" if isinstance(count, Tensor) else f"a {type(count).__name__}"
            raise Refused(f"the count that {name} returned is {what}; {_RETURNS}") from None
        if not math.isfinite(number) or number < 0:
            raise Refused(f"the count that {name} returned is {number:g}; {_RETURNS}")
        return loss, number

    # ---- what is checked, on one batch

    def check(self, batch: Any, result: Result, *, rows_interact: bool = False) -> None:
        """Refuses an objective that is random, or no sum; where the rows of a batch interact, nothing tells a sum."""
        self._check_repeats(batch, result)
        if not rows_interact:
            self._check_doubles(batch, result)

    def _check_repeats(self, batch: Any, result: Result) -> None:
        limit = 50 * self.epsilon
        again = _apart(self(batch).gradients, result.gradients)
        if again > limit:
            raise Refused(f"two runs of the objective with the same random numbers differ by {again:.1%}")
        other = _apart(self(batch, seed=1).gradients, result.gradients)
        if other > limit:
            raise Refused(
                f"the objective is random: with other random numbers its gradient differs by {other:.1%}"
                f"{self._dropout()}. A job that draws random numbers can't be compared; audit it with dropout off"
            )

    def _dropout(self) -> str:
        found = [
            n
            for n, m in self.model.named_modules()
            if isinstance(m, nn.modules.dropout._DropoutNd) and m.training and m.p
        ]
        return f" ({found[0]!r} is a dropout in training mode)" if found else ""

    def _check_doubles(self, batch: Any, result: Result) -> None:
        """Two copies of a batch have twice the sum and twice the count; a mean stays as it is."""
        name = self._function.__name__
        doubled = _doubled(batch)
        try:
            set_buffers(self.model, self._buffers)
            loss, count = self._evaluate(doubled, 0)
            times = float(loss.detach()) / result.loss if result.loss else 2.0
        except Refused as refused:
            raise Refused(
                f"whether {name} returns a sum could not be checked: with the rows of the batch put twice, {refused}"
            ) from refused
        if abs(times - 1) <= _DOUBLED:
            raise Refused(
                f"{name} returned a mean: with the rows of the batch put twice its loss is the same; {_RETURNS}"
            )
        if abs(times - 2) > _DOUBLED:
            raise Refused(
                f"{name} returned no sum over the rows of the batch: with all of them put twice its loss is "
                f"{times:.3g} times as large; {_RETURNS}. Where a row's loss depends on the other rows, as in "
                "contrastive losses, say so in the reference:  rows_interact = True"
            )
        if abs(count - 2 * result.count) > 1e-6 * count:
            raise Refused(
                f"{name} returned count={count:g} for the rows of the batch put twice, and {result.count:g} for them "
                f"once; {_RETURNS}"
            )

    # ---- how large roundings are

    @property
    def epsilon(self) -> float:
        """The relative size of one rounding in the smallest type that the model computes in."""
        return EPSILON.get(self.dtype, 6e-8)

    @property
    def dtype(self) -> str:
        """That type."""
        held = self._types | {parameter.dtype for parameter in self.model.parameters()}
        names = {str(dtype).removeprefix("torch.") for dtype in held}
        return max(names & set(EPSILON), key=lambda name: EPSILON[name], default="float32")

    def roundings(self, batch: Any, result: Result) -> dict[str, float]:
        """By parameter how many roundings its gradient holds, from the depth, and from weights that differ by one each.

        The second is large where terms cancel, as in the gradient of a bias of attention keys, which is 0 but for them.
        """
        depth = sum(1 for module in self.model.modules() if next(module.parameters(recurse=False), None) is not None)
        kept = {name: p.data for name, p in self.model.named_parameters()}
        generator = torch.Generator().manual_seed(7)
        for name, parameter in self.model.named_parameters():
            sign = torch.randint(0, 2, parameter.shape, generator=generator) * 2 - 1
            parameter.data = (kept[name].double() * (1 + 2 * self.epsilon * sign)).to(parameter.dtype)
        moved = self(batch).gradients
        for name, parameter in self.model.named_parameters():
            parameter.data = kept[name]
        apart = {name: _apart({name: moved[name]}, {name: own}) for name, own in result.gradients.items()}
        return {name: max(_GROWTH ** (depth + 1), far / (4 * self.epsilon)) for name, far in apart.items()}


def _doubled(batch: Any) -> Any:
    """A batch with all its rows put twice; what `gather` returned may be of any form."""
    content = batch.content if isinstance(batch, Batch) else batch
    size = next((len(tensor) for tensor in tensors(content) if tensor.dim()), 0)
    if not isinstance(batch, Batch):
        return twice(batch, size, flat=True)
    calls = [Call(twice(call.args, size), twice(call.kwargs, size), call.model) for call in batch.calls]
    return Batch(calls, twice(batch.targets, size, flat=True), twice(batch.told, size, flat=True), batch.left_out)


class _Types(TorchDispatchMode):
    """Notes the small types that operations compute in, autocast's included."""

    def __init__(self, found: set[torch.dtype]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.dtype in (torch.float16, torch.bfloat16):
            self._found.add(result.dtype)
        return result


def _state(model: nn.Module) -> dict[str, object]:
    """What an objective must leave as it is, by what is said of it where it doesn't."""
    modes = {f"the mode of {name or 'the model'!r}": module.training for name, module in model.named_modules()}
    return modes | {f"the weight {name!r}": (p._version, p.requires_grad) for name, p in model.named_parameters()}


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def _apart(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    """The relative distance of two gradients."""
    square = sum(float(tensor.double().square().sum()) for tensor in wanted.values())
    apart = sum(
        float((found[name].double() - tensor.double()).square().sum()) if name in found else square
        for name, tensor in wanted.items()
    )
    return math.sqrt(apart / square) if square else (math.inf if apart else 0.0)


def where_raised(error: BaseException, path: Path) -> str:
    """'KeyError: 'x' (ref.py:7)': what was raised, and the last line of a file that led to it."""
    lines = [
        f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).absolute() == path.absolute()
    ]
    line = f" ({path.name}:{lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {str(error)[:200]}{line}"


def _left_out(batch: Batch, error: BaseException) -> str:
    """What of the batch may be why an objective raised: it holds plain data alone."""
    left = ", ".join(batch.left_out[:3]) if isinstance(batch, Batch) else ""
    if left:
        return f"; arguments of the types {left} are no tensors, and stand as None in the batch"
    plain = type(error.obj).__name__ if isinstance(error, AttributeError) else ""
    if plain not in ("dict", "tuple", "list"):
        return ""
    return "; mappings and dataclasses stand as dicts in the batch, and named tuples as tuples"
