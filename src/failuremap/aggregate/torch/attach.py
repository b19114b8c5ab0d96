"""`attach`: the right rule in the place of a wrapper's own."""

from __future__ import annotations

import weakref

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from failuremap.aggregate.torch.agreement import agree
from failuremap.aggregate.torch.backend import Backend
from failuremap.aggregate.torch.guard import watch
from failuremap.aggregate.torch.handle import Handle
from failuremap.aggregate.torch.settings import Settings
from failuremap.errors import InvalidArgument

_attached: weakref.WeakSet[nn.Module] = weakref.WeakSet()


def attach(
    model: nn.Module,
    rule: str = "weighted_mean",
    *,
    loss: str | None = None,
    exact: bool = False,
    nonfinite: str = "propagate",
) -> Handle:
    """Makes a model's gradients follow a stated rule, over ranks and micro-batches; all ranks call it.

    `weighted_mean` is the mean over all units of the window (tokens, examples), whichever rank and micro-batch they
    came in: every micro-batch says its count. `mean` is the mean of the micro-batches' gradients, `sum` their sum. The
    wire carries sums, in float32 or better, which are divided once.

    Args:
        model: A DistributedDataParallel, a model given to fully_shard (1-D or HSDP), or a plain one in one process.
        rule: `weighted_mean`, `mean` or `sum`.
        loss: Needed for `weighted_mean`: whether a micro-batch's loss is the `mean` over its units, or their `sum`.
        exact: Whether sums are those of exact arithmetic: the same micro-batches give the same bits on any number of
            ranks. Computed on the CPU.
        nonfinite: What infinity or NaN in a rank's gradient does: `propagate`; `raise` in `handle.step`; or `exclude`
            the rank, with its count, from the step (not under fully_shard).

    Returns:
        The handle whose `backward` and `step` the loop calls.

    Raises:
        InvalidArgument: A setting is none or can't be kept, ranks differ in one, the model is attached already, or has
            a communication hook. The model is as it was, and the error is the same on all ranks.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> handle = attach(model, loss="mean")
        >>> for values in (torch.tensor([[1.0]]), torch.tensor([[2.0], [3.0], [6.0]])):
        ...     handle.backward(model(values).mean(), count=len(values))
        >>> handle.step()
        True
        >>> model.weight.grad.item()
        3.0
    """
    if not isinstance(model, nn.Module):
        raise InvalidArgument(f"model is of type {type(model).__name__}; expected a torch.nn.Module.")
    settings = Settings(rule, loss, exact, nonfinite)
    backend = _backend_of(model, settings)
    refusal = _refusal(model, backend)
    agree(backend.ranks, _compared(backend), refusal)
    backend.install()
    _attached.add(model)
    watch(backend)
    return Handle(backend)


def _backend_of(model: nn.Module, settings: Settings) -> Backend:
    if isinstance(model, DistributedDataParallel):
        from failuremap.aggregate.torch.ddp import DDPBackend

        return DDPBackend(model, settings)
    if dist.is_available():
        from failuremap.aggregate.torch.fsdp_modules import wrapped_modules

        if wrapped_modules(model):
            from failuremap.aggregate.torch.fsdp import FSDPBackend

            return FSDPBackend(model, settings)
    from failuremap.aggregate.torch.local_ import LocalBackend

    _refuse_wrapper(model)
    return LocalBackend(model, settings)


def _refuse_wrapper(model: nn.Module) -> None:
    rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
    for module in model.modules():
        kind = type(module).__name__
        if isinstance(module, DistributedDataParallel):
            raise InvalidArgument(
                f"model holds a DistributedDataParallel inside a {type(model).__name__} (rank {rank}); attach to that."
            )
        if isinstance(module, DataParallel) or kind == "FullyShardedDataParallel":
            raise InvalidArgument(
                f"model is or holds a {kind} (rank {rank}), which attach doesn't know; wrap the model with "
                "DistributedDataParallel or fully_shard."
            )
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise InvalidArgument(
            f"model is a plain {type(model).__name__} among {dist.get_world_size()} ranks (rank {rank}), so nothing "
            "would be reduced; wrap it with DistributedDataParallel or fully_shard first."
        )


def _refusal(model: nn.Module, backend: Backend) -> str:
    try:
        backend.settings.check()
        if model in _attached:
            raise InvalidArgument("model is attached already; attach once, and keep the handle.")
        if not any(parameter.requires_grad for parameter in backend.names):
            raise InvalidArgument("model has no parameter that requires a gradient.")
        backend.refuse()
    except InvalidArgument as refused:
        return str(refused)
    return ""


def _compared(backend: Backend) -> dict[str, str]:
    settings = backend.settings
    shown = {name: repr(getattr(settings, name))[:99] for name in ("rule", "loss", "exact", "nonfinite")}
    size = sum(parameter.numel() for parameter in backend.names)
    return {**shown, "model": f"{len(backend.names)} parameters of {size} elements"}
