"""Gradients that are made, removed or put into place in odd ways: python odd_gradients.py NAME."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
import torch.nn.functional as F
from odd_job import AT, Job, batch, run, total
from torch import Tensor

KINDS: dict[str, Callable[[Job, int], None]] = {}


def kind(function: Callable[[Job, int], None]) -> Callable[[Job, int], None]:
    """Enters a way to make a step, under its name."""
    KINDS[function.__name__.replace("_", "-")] = function
    return function


def finish(job: Job) -> None:
    """Adds up and steps."""
    job.add_up()
    job.optimizer.step()
    job.optimizer.zero_grad()


@kind
def gradients_removed(job: Job, step: int) -> None:
    """Those of one parameter, between backward and step."""
    job.gradients(step)
    job.add_up()
    if step == AT:
        job.model[0].weight.grad = None
    job.optimizer.step()
    job.optimizer.zero_grad()


@kind
def hook_raises(job: Job, step: int) -> None:
    """A hook of the optimizer's raises before one of its steps."""

    def refuse(*_: object) -> None:
        raise ValueError("not now")

    job.gradients(step)
    job.add_up()
    handle = job.optimizer.register_step_pre_hook(refuse) if step == AT else None
    with contextlib.suppress(ValueError):
        job.optimizer.step()
    if handle is not None:
        handle.remove()
    job.optimizer.zero_grad()


@kind
def functional_gradients(job: Job, step: int) -> None:
    """Gradients by torch.func, which autograd never hands over."""
    x, y = batch(step)
    count = total(y)
    weights = {name: parameter.detach() for name, parameter in job.model.named_parameters()}

    def objective(weights: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(torch.func.functional_call(job.model, weights, (x,)), y, reduction="sum") / count

    for name, gradient in torch.func.grad(objective)(weights).items():
        job.model.get_parameter(name).grad = gradient
    job.add_up()
    job.optimizer.step()


@kind
def backward_twice(job: Job, step: int) -> None:
    """Half of each loss, twice."""
    x, y = batch(step)
    loss = job.loss(x, y, total(y)) / 2
    loss.backward(retain_graph=True)
    loss.backward()
    finish(job)


@kind
def gradient_penalty(job: Job, step: int) -> None:
    """A term on the gradient of what comes out by what goes in."""
    x, y = batch(step)
    count = total(y)
    (slope,) = torch.autograd.grad(job.model(x.requires_grad_()).sum(), x, create_graph=True)
    (job.loss(x, y, count) + slope.square().sum() / count).backward()
    finish(job)


@kind
def handed_back(job: Job, step: int) -> None:
    """Gradients that are handed back, of two micro-batches, and put into place by hand."""
    x, y = batch(step)
    count, parameters = total(y), list(job.model.parameters())
    parts = [
        torch.autograd.grad(job.loss(a, b, count), parameters) for a, b in zip(x.split(3), y.split(3), strict=True)
    ]
    for parameter, *gradients in zip(parameters, *parts, strict=True):
        parameter.grad = sum(gradients)
    job.add_up()
    job.optimizer.step()


@kind
def handed_back_last(job: Job, step: int) -> None:
    """The same, written over each time."""
    x, y = batch(step)
    count, parameters = total(y), list(job.model.parameters())
    for a, b in zip(x.split(4), y.split(4), strict=True):
        for parameter, gradient in zip(parameters, torch.autograd.grad(job.loss(a, b, count), parameters), strict=True):
            parameter.grad = gradient
    job.add_up()
    job.optimizer.step()


if __name__ == "__main__":
    run(KINDS)
