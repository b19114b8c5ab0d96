"""Finds every parameter of the job, as early as it is registered, and puts the recorder's hook on it."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from failuremap.audit.capture.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Watches parameters from their registration in a module, or from their arrival in an optimizer.

    Early matters: hooks run in the order of registration, and a script's own hook may reduce the gradient.
    """

    def on_parameter(module: torch.nn.Module, name: str, parameter: torch.nn.Parameter | None) -> None:
        try:
            recorder.modules.add(module, parameter)
            if recorder.keeping is not None:
                recorder.keeping.saw(module)
            if parameter is not None and recorder.active:
                recorder.watch(parameter)
        except Exception as error:
            recorder.note_error("on_parameter", error)

    def on_module(module: torch.nn.Module, name: str, child: torch.nn.Module | None) -> None:
        try:
            recorder.modules.add(module)
            if recorder.keeping is not None:
                recorder.keeping.saw(module, child)
        except Exception as error:
            recorder.note_error("on_module", error)

    torch_module.register_module_parameter_registration_hook(on_parameter)
    torch_module.register_module_module_registration_hook(on_module)
    _watch_parameter_groups(recorder)
    _watch_copied_modules(recorder)


def _watch_parameter_groups(recorder: Recorder) -> None:
    original = torch.optim.Optimizer.add_param_group

    @functools.wraps(original)
    def add_param_group(self: torch.optim.Optimizer, param_group: dict[str, Any]) -> None:
        original(self, param_group)
        try:
            recorder.copies.note(self)
            for parameter in self.param_groups[-1]["params"]:
                watched = recorder.watch(parameter)
                if watched is not None and watched.piece is not None:  # no module holds it while it is gathered
                    recorder.modules.name(parameter)
        except Exception as error:
            recorder.note_error("add_param_group", error)

    torch.optim.Optimizer.add_param_group = add_param_group  # type: ignore[method-assign]


def _watch_copied_modules(recorder: Recorder) -> None:
    """Modules that are copied, or loaded from a file, register nothing."""
    original: Any = torch.nn.Module.__setstate__

    @functools.wraps(original)
    def __setstate__(self: torch.nn.Module, state: dict[str, Any]) -> None:  # noqa: N807 - it becomes just that
        original(self, state)
        try:
            recorder.modules.add(self)
            for parameter in self._parameters.values():
                if parameter is not None and recorder.active:
                    recorder.watch(parameter)
        except Exception as error:
            recorder.note_error("on_module", error)

    torch.nn.Module.__setstate__ = __setstate__  # type: ignore[method-assign]
