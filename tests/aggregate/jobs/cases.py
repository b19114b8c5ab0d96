"""What the cases of refused messages share: models, and what is said where something is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from models import Model, wrapped
from scenarios import Scenario
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from failuremap import FailuremapError

CASES: dict[str, Callable[[], Iterator[str]]] = {}


def case(function: Callable[[], Iterator[str]]) -> Callable[[], Iterator[str]]:
    """Add a case, named as its function."""
    CASES[function.__name__] = function
    return function


def refusal(function: Callable[[], object]) -> str:
    """Return the kind of error and its message; what came back where there is none."""
    try:
        return f"returned {function()!r}"
    except FailuremapError as refused:
        return f"{type(refused).__name__}: {refused}"
    except RuntimeError as failed:
        return f"RuntimeError: {failed}"


def first(options: dict[object, object]) -> object:
    """Return the value that this rank uses."""
    return options.get(dist.get_rank(), options["else"])


def ddp(**options: object) -> nn.Module:
    return wrapped(Scenario("", "ddp")) if not options else DistributedDataParallel(Model(), **options)


def fsdp(**options: object) -> nn.Module:
    return wrapped(Scenario("", "fsdp", **options))


def features(size: int = 2) -> tuple[Tensor, Tensor]:
    return torch.ones(size, 7), torch.zeros(size, dtype=torch.long)


def losses(model: nn.Module, size: int = 2) -> Tensor:
    return model(*features(size))


def weights(model: nn.Module) -> list[float]:
    return [
        float(local.detach().sum()) for p in model.parameters() for local in [getattr(p, "to_local", lambda p=p: p)()]
    ]


def no_gradients(model: nn.Module) -> str:
    return f"gradients: {sum(p.grad is not None for p in model.parameters())}"
