"""Does what a handle refuses, case after case in one process group, and prints the messages as JSON."""

from __future__ import annotations

import contextlib
import json
import sys

import refused_at_attach  # noqa: F401  its cases come first
import torch
import torch.distributed as dist
from cases import CASES, case, ddp, features, first, fsdp, losses, no_gradients, refusal, weights
from models import Model, wrapped
from scenarios import Scenario
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from failuremap import attach, clip_grad_norm_
from failuremap.aggregate.torch.handle import Handle


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
    for count in (-1, float("nan"), True, 2.5, None, "3", torch.tensor(-2), torch.ones(2)):
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
    yield f"largest: {largest(model)}"


def largest(model: nn.Module) -> float:
    return max(float(p.grad.full_tensor().abs().max()) for p in model.parameters())


@case
def replicas_kept_back():
    model = wrapped(Scenario("", "hsdp"))
    handle = attach(model, "mean")
    handle.backward(losses(model).mean())
    model.set_requires_all_reduce(False)
    handle.backward(losses(model).mean())
    yield refusal(handle.step)
    model.set_requires_all_reduce(True)
    handle.backward(losses(model).mean())
    yield refusal(handle.step)
    yield f"largest: {largest(model)}"


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
