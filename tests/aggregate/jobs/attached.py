"""Runs windows on real ranks and prints, as JSON, what every rank would step on.

attached.py NAME ...            by a handle of `attach`
attached.py --plain NAME ...    by the wrapper's own reduction
"""

from __future__ import annotations

import contextlib
import json
import sys

import torch
import torch.distributed as dist
from models import batch, gradients, wrapped
from scenarios import SCENARIOS, Scenario
from torch import Tensor, nn

import failuremap
from failuremap.aggregate.torch.handle import Handle

plain = "--plain" in sys.argv
names = [argument for argument in sys.argv[1:] if argument != "--plain"]


def loss_of(scenario: Scenario, losses: Tensor, count: int) -> Tensor:
    """Return the loss as the scenario's user forms it."""
    if not count:
        return losses.sum() * (torch.nan if scenario.nan else 1000.0)
    return losses.sum() if scenario.loss == "sum" else losses.mean()


@contextlib.contextmanager
def syncing(model: nn.Module, scenario: Scenario, last: bool):
    """Reduce this micro-batch, or keep it back."""
    if scenario.sync == "every" or scenario.wrapper == "plain":
        yield
    elif scenario.wrapper == "ddp":
        with contextlib.nullcontext() if last else model.no_sync():
            yield
    else:
        if scenario.sync == "replicas_last":
            model.set_requires_all_reduce(last)
        else:
            model.set_requires_gradient_sync(last)
        yield


def train_window(model: nn.Module, handle: Handle | None, scenario: Scenario) -> bool:
    """Run the window; return whether there is an update."""
    for micro_batch in range(len(scenario.counts)):
        features, rows, count = batch(scenario, dist.get_rank(), micro_batch)
        with syncing(model, scenario, micro_batch == len(scenario.counts) - 1):
            losses = model(features, rows, scenario.leaves_out(micro_batch))
            loss = loss_of(scenario, losses, count)
            if handle is None:
                loss.backward()
            elif scenario.rule == "weighted_mean":
                handle.backward(loss, count=count)
            else:
                handle.backward(loss)
    return handle.step() if handle else True


def run(scenario: Scenario) -> dict[str, object]:
    """Train two windows, so that the second sees what the first left, and return the second's gradients."""
    model = wrapped(scenario)
    handle = None
    if not plain:
        handle = failuremap.attach(
            model, scenario.rule, loss=scenario.loss, exact=scenario.exact, nonfinite=scenario.nonfinite
        )
    if scenario.rule != "weighted_mean":
        assert scenario.loss is None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        updated = train_window(model, handle, scenario)
        optimizer.step()
    report = handle.report if handle else None
    return {
        "gradients": gradients(model),
        "updated": updated,
        "counts": list(report.counts.values()) if report else None,
        "coefficients": [str(one) for one in report.coefficients.values()] if report else None,
    }


torch.set_num_threads(1)
dist.init_process_group("gloo")
for name in names:
    print(json.dumps({"scenario": name, "rank": dist.get_rank(), **run(SCENARIOS[name])}), flush=True)
dist.barrier()
dist.destroy_process_group()
