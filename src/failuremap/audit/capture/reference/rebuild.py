"""The model of the job, in one process: built or unpickled, with the weights, buffers and modes that it had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from failuremap.audit.capture.reference import Refused
from failuremap.audit.capture.reference.kept import Window

_BUILD = "define  build()  in the reference, which returns the model as it is before anything wraps or shards it"


def make_model(folder: Path, build: Callable[[], object] | None) -> nn.Module:
    """The model, by the reference's own `build`, else by the pickle of rank 0."""
    if build is not None:
        model = build()
        if not isinstance(model, nn.Module):
            raise Refused(f"build() returned a {type(model).__name__}, not a torch.nn.Module")
        return model
    failed = folder / "kept-model.txt"
    if failed.exists():
        raise Refused(f"the model can't be pickled ({failed.read_text()[:200]}); {_BUILD}")
    try:
        loaded = torch.load(folder / "kept-model.pt", weights_only=False)
    except FileNotFoundError as error:
        raise Refused(f"no model was called on rank 0; {_BUILD}") from error
    except Exception as error:
        why = str(error).partition(" on <module")[0]
        raise Refused(f"the model can't be made from its pickle ({why}); {_BUILD}") from error
    assert isinstance(loaded, nn.Module)
    return loaded


def load(model: nn.Module, window: Window) -> None:
    """Gives a model the weights, the buffers and the modes of a window's beginning."""
    weights, parameters = window.weights(), dict(model.named_parameters())
    _compare_names(set(weights), window.trained, set(parameters))
    for name, parameter in parameters.items():
        if weights[name].shape != parameter.shape:
            raise Refused(
                f"parameter {name!r} has the shape {tuple(weights[name].shape)} in the job and "
                f"{tuple(parameter.shape)} in the reference's model{_hint(weights[name], parameter)}"
            )
        parameter.data = weights[name].clone()
    set_buffers(model, window.buffers)
    model.train()
    for name, module in model.named_modules():
        module.training = name not in window.evaluating
    _refuse_batch_norm(model)


def set_buffers(model: nn.Module, buffers: dict[str, Tensor]) -> None:
    """Puts buffers back as they were: a forward may have changed them."""
    for name, buffer in model.named_buffers():
        if name in buffers and buffers[name].shape == buffer.shape:
            buffer.data = buffers[name].clone()


def _compare_names(job: set[str], trained: set[str], reference: set[str]) -> None:
    """What the job holds and does not train, a teacher for one, may be absent from the reference's model."""
    for names, where, other in (
        (trained - reference, "the job", "the reference's model"),
        (reference - job, "the reference's model", "the job"),
    ):
        if names:
            shown = ", ".join(sorted(names)[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            flat = any(name.endswith("_flat_param") for name in names)
            hint = ": let FSDP keep the names, use_orig_params=True, for the audit" if flat else ""
            raise Refused(f"the weights do not load: {where} has {shown}, and {other} has not{hint}")


def _hint(kept: Tensor, wanted: Tensor) -> str:
    split = [dim for dim, (a, b) in enumerate(zip(kept.shape, wanted.shape, strict=False)) if b != a and b % a == 0]
    if len(split) != 1 or kept.dim() != wanted.dim():
        return ""
    return f"; if each rank holds a part of it, say along which dimension:  shards = {{'name': {split[0]}}}"


def _refuse_batch_norm(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and module.training:
            raise Refused(
                f"{name!r} is a {type(module).__name__} in training mode: it makes the loss of an example depend on "
                "the others of its batch, so no sum over batches is the loss of one process. "
                "Put it in eval mode for the audit"
            )
