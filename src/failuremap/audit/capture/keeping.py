"""Keeps what another process needs to repeat the first windows: batches, weights before the step, buffers, modes.

    kept-rank00000-0-0.pt   of one rank: number of the optimizer, steps that it had made; `torch.save` of plain data
    kept-model.pt           rank 0's model, pickled, where the reference does not build one

Only where the audit has a reference. Nothing is kept after the first windows, and nothing beyond a limit of size.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from failuremap.audit.capture.batches import Copier
from failuremap.audit.capture.held.layout import is_distributed, is_whole, layout_of, local

if TYPE_CHECKING:
    from failuremap.audit.capture.recorder import Recorder
    from failuremap.audit.capture.sampling import Stepper

WINDOWS = 2
"""Windows that are kept."""
LIMIT = 4 << 30
"""Bytes of weights that one rank keeps of one window, at most."""
BATCH_LIMIT = 256 << 20
"""Bytes of batches that it keeps."""
MODEL, EVERY_RANK = "model", "every-rank"
"""What is kept where it is asked for: the pickled model, and parameters that are no DTensors on ranks beside 0."""

_HOOKS = (
    "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
)  # fmt: skip


class Keeping:
    """What is kept of the running window.

    Args:
        recorder: Whose job it is; its errors go there.
        wanted: MODEL, EVERY_RANK, both or none.
    """

    def __init__(self, recorder: Recorder, wanted: Collection[str]) -> None:
        self._recorder, self._wanted = recorder, wanted
        self._hooked: weakref.WeakKeyDictionary[torch.nn.Module, list[Any]] = weakref.WeakKeyDictionary()
        self._children: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._depth, self._left, self.active = 0, WINDOWS, True
        self._model_done = MODEL not in wanted
        self._new_pass()
        self._new_window()
        self._pickle_without_hooks()

    def _new_window(self) -> None:
        self._passes: list[dict[str, Any]] = []
        self._buffers: dict[str, Tensor] | None = None
        self._evaluating: list[str] = []
        self._copier = Copier(BATCH_LIMIT)

    def _new_pass(self) -> None:
        self._calls: list[dict[str, Any]] = []
        self._targets: list[Any] = []
        self._told: Any = ()
        self._loss: float | None = None

    # ---- what comes from the job; each does nothing once the windows are kept, and raises nothing

    def saw(self, module: torch.nn.Module, child: torch.nn.Module | None = None) -> None:
        """Hooks a module that no other holds; one that is held by now loses its hooks."""
        if not self.active:
            return
        if child is not None:
            self._children.add(child)
            for handle in self._hooked.pop(child, []):
                handle.remove()
        if module not in self._children and module not in self._hooked:
            self._hooked[module] = [
                module.register_forward_pre_hook(functools.partial(_entered, weakref.ref(self)), with_kwargs=True),
                module.register_forward_hook(functools.partial(_left, weakref.ref(self)), always_call=True),
            ]

    def enter(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keeps the arguments of a call from outside whose result may go backward."""
        self._depth += 1
        if self._depth > 1 or not torch.is_grad_enabled() or self._recorder.depth or not self._room():
            return
        if self._buffers is None:
            self._buffers = self._named_buffers()
            modes = self._recorder.modules.training_modes()
            self._evaluating = [name for name, training in modes.items() if not training]
        self._keep_model(module)
        call = {"args": self._copier.copy(args), "kwargs": self._copier.copy(kwargs)}
        self._calls.append({**call, "model": type(_unwrapped(module)).__name__, "training": module.training})

    def leave(self) -> None:
        """Notes the end of a call."""
        self._depth = max(0, self._depth - 1)

    def add_target(self, target: Any) -> None:
        """Keeps what a loss function of torch was given as its target."""
        if self._room():
            self._targets.append(self._copier.copy(target))

    def tell(self, told: tuple[Any, ...]) -> None:
        """Keeps what the script itself calls its batch."""
        if self._room():
            self._told = self._copier.copy(told)

    def start_at(self, roots: Sequence[Tensor]) -> None:
        """Keeps the loss that the next backward pass starts at, where it is one number."""
        one = len(roots) == 1 and roots[0].numel() == 1 and (not is_distributed(roots[0]) or is_whole(roots[0]))
        self._loss = float(local(roots[0]).detach()) if self.active and one else None

    def begin_pass(self, backward: int) -> None:
        """Notes a backward pass: what was kept since the last one is what it is made of."""
        if self.active:
            told = {"targets": self._targets, "told": self._told, "loss": self._loss}
            self._passes.append({"backward": backward, "calls": _trained_on(self._calls), **told})
        self._new_pass()

    def on_step(self, stepper: Stepper) -> None:
        """Writes the window down that an optimizer is about to end."""
        if not self.active or not self._passes:  # none: another optimizer has stepped on the same passes
            return
        try:
            self._write(stepper)
        except Exception as error:
            self._recorder.note_error("keeping", error)
        self._left -= 1
        self._new_window()
        if not self._left:
            self.close()

    def close(self) -> None:
        """Keeps nothing more, and takes its hooks away."""
        self.active = False
        for handles in list(self._hooked.values()):
            for handle in handles:
                handle.remove()
        self._hooked.clear()
        del torch.nn.Module.__getstate__

    # ---- what is written

    def _room(self) -> bool:
        if self.active and not self._recorder.active:
            self.close()
        return self.active and self._copier.byte_count <= BATCH_LIMIT

    def _write(self, stepper: Stepper) -> None:
        from failuremap.audit.capture.other_processes import place

        rank, world_size = place()
        kept: dict[str, Any] = {
            "rank": rank,
            "world_size": world_size,
            "optimizer": stepper.number,
            "count": stepper.count,
        }
        path = self._recorder.folder / f"kept-rank{rank:05d}-{stepper.number}-{stepper.count}.pt"
        parameters = {name: _held(self._recorder, tensor) for name, tensor in self._recorder.modules.parameters()}
        parameters = {
            name: held
            for name, held in parameters.items()
            if "parts" in held or rank == 0 or EVERY_RANK in self._wanted
        }
        weight_bytes = sum(held["local"].numel() * held["local"].element_size() for held in parameters.values())
        if weight_bytes > LIMIT or self._copier.byte_count > BATCH_LIMIT:
            kept["too_large"] = (weight_bytes, self._copier.byte_count)
        else:
            kept |= {"passes": self._passes, "left_out": sorted(set(self._copier.left_out))}
            kept |= {"parameters": {name: _copied(held) for name, held in parameters.items()}}
            kept |= {"buffers": self._buffers or {}, "evaluating": self._evaluating}
        _save(kept, path)

    def _named_buffers(self) -> dict[str, Tensor]:
        copier = Copier(BATCH_LIMIT)
        held = {
            f"{name}.{own}".removeprefix("."): copier.copy(tensor)
            for name, module in self._recorder.modules.named_modules()
            for own, tensor in module.named_buffers(recurse=False)
        }
        self._copier.byte_count += copier.byte_count
        return {name: tensor for name, tensor in held.items() if tensor is not None}

    def _keep_model(self, module: torch.nn.Module) -> None:
        """Pickles the model of the first call; why it could not be stands in a file of its own."""
        if self._model_done:
            return
        from failuremap.audit.capture.other_processes import place

        self._model_done = True
        if place()[0] != 0:
            return
        path, inner = self._recorder.folder / "kept-model.pt", _unwrapped(module)
        try:
            if any(is_distributed(parameter) for parameter in inner.parameters()):
                raise TypeError("its parameters are sharded over the ranks")
            _save(inner, path)
        except Exception as error:
            path.with_suffix(".txt").write_text(f"{type(inner).__name__}: {error}")

    def _pickle_without_hooks(self) -> None:
        """Lets modules pickle and copy all that they have, but for the hooks that were put on them here."""

        def __getstate__(module: torch.nn.Module) -> dict[str, Any]:  # noqa: N807 - it becomes just that
            mine = {handle.id for handle in self._hooked.get(module, [])}
            return {
                name: type(held)((id, hook) for id, hook in held.items() if id not in mine) if name in _HOOKS else held
                for name, held in module.__dict__.items()
            }

        torch.nn.Module.__getstate__ = __getstate__  # type: ignore[method-assign]


def _entered(
    keeping: weakref.ref[Keeping], module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    found = keeping()
    if torch.compiler.is_compiling() or found is None or not found.active:
        return
    try:
        found.enter(module, args, kwargs)
    except Exception as error:  # the job that is watched must never see it
        found._recorder.note_error("keeping", error)


def _left(keeping: weakref.ref[Keeping], module: torch.nn.Module, args: Any, result: Any) -> None:
    found = keeping()
    if not torch.compiler.is_compiling() and found is not None:
        found.leave()


def _trained_on(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls without those of an evaluation, where both were kept: a backward follows those in training mode."""
    training = [call for call in calls if call["training"]]
    return [{key: call[key] for key in ("args", "kwargs", "model")} for call in training or calls]


def _unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """The model inside DistributedDataParallel and torch.compile."""
    while type(module).__name__ in ("DistributedDataParallel", "OptimizedModule"):
        module = module._orig_mod if hasattr(module, "_orig_mod") else module.module  # type: ignore[assignment]
    return module


def _held(recorder: Recorder, parameter: Tensor) -> dict[str, Any]:
    """This rank's part of a parameter, and where it lies in the whole."""
    watched = recorder.by_tensor.get(parameter)
    weights, piece = (parameter, None) if watched is None else watched.weights()
    layout = layout_of(parameter) if is_distributed(parameter) else piece
    found = local(parameter if weights is None else weights).detach()
    told = {"trained": parameter.requires_grad, "stepped": parameter.grad is not None}
    if layout is None:
        return {"local": found, **told}
    if layout.run is not None:
        found = found.reshape(-1)[: layout.run[1] - layout.run[0]]
    where = {"run": layout.run} if layout.run is not None else {"held": list(layout.held)}
    return {"local": found, "shape": tuple(layout.shape), "parts": tuple(layout.parts), **where, **told}


def _copied(held: dict[str, Any]) -> dict[str, Any]:
    return {**held, "local": held["local"].cpu().clone()}


def _save(value: Any, path: Path) -> None:
    part = path.with_suffix(".part")
    torch.save(value, part)
    part.replace(path)
