"""Does what a handle refuses, case after case in one process group, and prints the messages as JSON."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from models import Model, wrapped
from scenarios import Scenario
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from failuremap import FailuremapError, attach, clip_grad_norm_
from failuremap.aggregate.torch.handle import Handle

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


@case
def unknown_rule():
    model = ddp()
    yield refusal(lambda: attach(model, "average"))
    yield f"hooks: {len(model._comm_hooks)}"


@case
def rules_differ():
    model = ddp()
    yield refusal(lambda: attach(model, first({1: "sum", "else": "mean"})))
    yield f"hooks: {len(model._comm_hooks)}"


@case
def losses_differ():
    yield refusal(lambda: attach(fsdp(), loss=first({1: "sum", "else": "mean"})))


@case
def models_differ():
    from torch.distributed.fsdp import fully_shard

    yield refusal(lambda: attach(fully_shard(nn.Linear(2, 1 + dist.get_rank())), "sum"))


@case
def one_rank_refuses():
    yield refusal(lambda: attach(ddp(), first({1: "average", "else": "mean"})))


@case
def loss_kind_missing():
    yield refusal(lambda: attach(ddp()))


@case
def loss_kind_without_use():
    yield refusal(lambda: attach(ddp(), "sum", loss="mean"))


@case
def exact_is_no_bool():
    yield refusal(lambda: attach(ddp(), "sum", exact=1))


@case
def unknown_nonfinite():
    yield refusal(lambda: attach(ddp(), "sum", nonfinite="skip"))


@case
def attached_twice():
    model = ddp()
    attach(model, "sum")
    yield refusal(lambda: attach(model, "sum"))


@case
def hook_is_there():
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    model = ddp()
    model.register_comm_hook(None, allreduce_hook)
    yield refusal(lambda: attach(model, "sum"))


@case
def nothing_to_train():
    model = fsdp()
    yield refusal(lambda: attach(model.requires_grad_(False), "sum"))


@case
def plain_model():
    yield refusal(lambda: attach(nn.Linear(1, 1), "sum"))


@case
def wrapper_inside():
    yield refusal(lambda: attach(nn.Sequential(ddp()), "sum"))


@case
def data_parallel():
    yield refusal(lambda: attach(nn.DataParallel(nn.Linear(1, 1)), "sum"))


@case
def fsdp_excludes():
    yield refusal(lambda: attach(fsdp(), "sum", nonfinite="exclude"))


@case
def fsdp_parameter_outside():
    from torch.distributed.fsdp import fully_shard

    model = Model()
    fully_shard(model.first)
    yield refusal(lambda: attach(model, "sum"))


@case
def fsdp_hook_is_there():
    model = fsdp()
    model.first.set_all_reduce_hook(no_hook)
    yield refusal(lambda: attach(model, "sum"))


def no_hook(_: Tensor) -> None:
    """Do nothing."""


@case
def exact_replicas_alone():
    yield refusal(lambda: attach(wrapped(Scenario("", "hsdp", options=("replicas_alone",))), "sum", exact=True))


@case
def low_precision_replicas_alone():
    model = wrapped(Scenario("", "hsdp", dtype="bfloat16", options=("replicas_alone",)))
    handle = attach(model, "sum")
    x, rows = features()
    yield refusal(lambda: handle.backward(model(x.bfloat16(), rows).mean()))


@case
def no_counts():
    model = ddp()
    handle = attach(model, loss="mean")
    for count in (-1, float("nan"), True, 2.5, None, "3", torch.tensor(-2)):
        yield refusal(lambda count=count: handle.backward(losses(model).mean(), count=count))
    yield no_gradients(model)
    yield refusal(lambda: handle.backward(losses(model).mean(), count=torch.tensor(2)))
    yield refusal(handle.step)


@case
def count_without_use():
    model = ddp()
    handle = attach(model, "mean")
    yield refusal(lambda: handle.backward(losses(model).mean(), count=2))


@case
def loss_of_many():
    model = ddp()
    yield refusal(lambda: attach(model, "mean").backward(losses(model)))


@case
def step_alone():
    yield refusal(attach(ddp(), "mean").step)


@case
def step_left_out():
    for model in (ddp(), fsdp()):
        before = weights(model)
        handle = attach(model, "mean")
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        handle.backward(losses(model).mean())
        yield refusal(optimizer.step)
        yield refusal(lambda model=model: clip_grad_norm_(model.parameters(), 1.0))
        yield f"weights as before: {weights(model) == before}"
        optimizer.zero_grad()
        yield refusal(lambda model=model, handle=handle: handle.backward(losses(model).mean()))
        handle.drop()
        yield refusal(lambda model=model, handle=handle: handle.backward(losses(model).mean()))
        yield refusal(handle.step)


@case
def step_left_out_with_zeros():
    model = ddp()
    handle = attach(model, "mean")
    handle.backward(losses(model).mean())
    torch.optim.SGD(model.parameters()).zero_grad(set_to_none=False)
    yield refusal(lambda: handle.backward(losses(model).mean()))


@case
def optimizer_of_another_model():
    model, other = ddp(), nn.Linear(1, 1)
    attach(model, "mean").backward(losses(model).mean())
    yield refusal(torch.optim.SGD(other.parameters()).step)


@case
def zero_grad_forgotten():
    model = ddp()
    handle = attach(model, "mean")
    handle.backward(losses(model).mean())
    handle.step()
    yield refusal(lambda: handle.backward(losses(model).mean()))
    model.zero_grad(set_to_none=False)
    yield refusal(lambda: handle.backward(losses(model).mean()))


@case
def past_the_handle():
    for model in (ddp(), fsdp()):
        handle = attach(model, "mean")
        losses(model).mean().backward()
        yield refusal(torch.optim.SGD(model.parameters()).step)
        yield refusal(handle.step)
        yield no_gradients(model)


@case
def past_the_handle_without_sync():
    model = ddp()
    handle = attach(model, "mean")
    with model.no_sync():
        handle.backward(losses(model).mean())
        losses(model).mean().backward()
        handle.backward(losses(model).mean())
    handle.backward(losses(model).mean())
    yield refusal(handle.step)


@case
def clipped_too_early():
    for model in (ddp(), fsdp()):
        handle = attach(model, "mean")
        handle.backward(losses(model).mean())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        yield refusal(handle.step)
        yield no_gradients(model)


@case
def last_kept_back():
    model = ddp()
    handle = attach(model, "mean")
    with model.no_sync():
        handle.backward(losses(model).mean())
    yield refusal(handle.step)
    model = fsdp()
    handle = attach(model, "mean")
    model.set_requires_gradient_sync(False)
    handle.backward(losses(model).mean())
    yield refusal(handle.step)
    model.set_requires_gradient_sync(True)
    handle.backward(losses(model).mean())
    yield refusal(handle.step)
    yield f"largest: {max(float(p.grad.full_tensor().abs().max()) for p in model.parameters())}"


@case
def exact_kept_back():
    model = fsdp()
    handle = attach(model, "mean", exact=True)
    model.set_requires_gradient_sync(False)
    handle.backward(losses(model).mean())
    model.set_requires_gradient_sync(True)
    handle.backward(losses(model).mean())
    yield refusal(handle.step)


@case
def exact_and_sparse():
    model = DistributedDataParallel(Model(sparse=True))
    handle = attach(model, "mean", exact=True)
    handle.backward(losses(model).mean())
    yield refusal(handle.step)


@case
def one_rank_fails():
    model = ddp()
    handle = attach(model, "mean")
    with model.no_sync():
        yield refusal(lambda: failing_backward(model, handle))
    handle.backward(losses(model).mean())
    yield refusal(handle.step)
    yield no_gradients(model)
    yield refusal(lambda: handle.backward(losses(model).mean()))
    yield refusal(handle.step)


def failing_backward(model: nn.Module, handle: Handle) -> None:
    loss = losses(model).mean()
    if dist.get_rank() == 1:
        loss.register_hook(no_memory)
    handle.backward(loss)


def no_memory(_: Tensor) -> None:
    raise RuntimeError("out of memory")


@case
def not_finite():
    for model in (ddp(), fsdp(), ddp(bucket_cap_mb=1e-6)):
        handle = attach(model, "mean", nonfinite="raise")
        handle.backward(losses(model).mean() * first({1: torch.inf, "else": 1.0}))
        yield refusal(handle.step)
        yield no_gradients(model)


@case
def excluded():
    for exact in (False, True):
        model = ddp()
        handle = attach(model, loss="sum", nonfinite="exclude", exact=exact)
        for scale in (first({0: torch.nan, "else": 1.0}), torch.nan):
            model.zero_grad()
            handle.backward(losses(model).sum() * scale, count=2)
            yield refusal(handle.step)
            report = handle.report
            yield f"{report.ranks} {report.excluded} {report.total} {report.coefficients}"
        yield no_gradients(model)


@case
def excluded_twice_reduced():
    model = ddp()
    handle = attach(model, "mean", nonfinite="exclude")
    handle.backward(losses(model).mean())
    yield refusal(lambda: handle.backward(losses(model).mean()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in sys.argv[1:] or CASES:
        with contextlib.closing(CASES[name]()) as messages:
            print(json.dumps({"case": name, "rank": dist.get_rank(), "messages": list(messages)}), flush=True)
    dist.destroy_process_group()
