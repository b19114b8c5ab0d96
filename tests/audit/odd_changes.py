"""What happens to a model or its surroundings during training: python odd_changes.py NAME."""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from odd_job import AT, STEPS, Job, batch, run, total, usual
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


class Lora(nn.Module):
    """A layer that is frozen, and a small correction that trains."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(2, base.in_features) / 4)
        self.up = nn.Parameter(torch.zeros(base.out_features, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + x @ self.down.T @ self.up.T


def probe() -> None:
    """A small model that is trained beside."""
    small = nn.Linear(8, 4)
    step = torch.optim.SGD(small.parameters(), 0.1)
    for number in range(3):
        x, y = batch(number)
        F.cross_entropy(small(x), y).backward()
        step.step()


class Probed(Dataset):
    """Batches, for each of which a worker trains something of its own."""

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, step: int) -> tuple[Tensor, Tensor]:
        probe()
        return batch(step)


KINDS: dict[str, Callable[[Job, int], None]] = {}


def kind(function: Callable[[Job, int], None]) -> Callable[[Job, int], None]:
    """Enters a way to make a step, under its name."""
    KINDS[function.__name__.replace("_", "-")] = function
    return function


def before(function: Callable[[Job], None]) -> Callable[[Job], None]:
    """Enters what happens before one of the usual steps, under its name."""

    def step_of(job: Job, step: int) -> None:
        if step == AT:
            function(job)
        usual(job, step)

    KINDS[function.__name__.replace("_", "-")] = step_of
    return function


@before
def parameter_replaced_untold(job: Job) -> None:
    """The optimizer goes on with the old one."""
    job.model[2].weight = nn.Parameter(job.model[2].weight.detach() * 0.5)


@before
def layer_replaced_untold(job: Job) -> None:
    """The same, of a whole layer."""
    torch.manual_seed(5)
    job.model[4] = nn.Linear(16, 4)


@before
def adapters_added(job: Job) -> None:
    """Low-rank adapters in a frozen model, and a group for them."""
    for place in (0, 2, 4):
        job.model[place] = Lora(job.model[place])
    job.optimizer.add_param_group({"params": [p for p in job.model.parameters() if p.requires_grad]})


@before
def shape_changed(job: Job) -> None:
    """A class more, in the same parameters."""
    for parameter, more in ((job.model[4].weight, (1, 16)), (job.model[4].bias, (1,))):
        parameter.data = torch.cat([parameter.data, torch.full(more, -9.0)])
    job.optimizer.state.clear()


@before
def copied(job: Job) -> None:
    """Model and optimizer go on as copies of themselves."""
    job.model, job.optimizer = copy.deepcopy((job.model, job.optimizer))


@before
def loaded(job: Job) -> None:
    """A checkpoint of everything, and on from there."""
    file = io.BytesIO()
    torch.save((job.model, job.optimizer.state_dict()), file)
    file.seek(0)
    job.model, state = torch.load(file, weights_only=False)
    job.optimizer = torch.optim.SGD(job.model.parameters(), 0.1, momentum=0.9)
    job.optimizer.load_state_dict(state)


@before
def elsewhere(job: Job) -> None:
    """Another folder, and nothing is printed any more."""
    os.chdir(tempfile.mkdtemp())
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()


@before
def child_trains(job: Job) -> None:
    """A child of each rank trains a probe."""
    child = multiprocessing.get_context("fork").Process(target=probe)
    child.start()
    child.join()
    assert child.exitcode == 0


@kind
def workers_train(job: Job, step: int) -> None:
    """The workers of a data loader train something of their own."""
    if step == 0:
        job.loader = iter(DataLoader(Probed(), batch_size=None, num_workers=2, multiprocessing_context="fork"))
    usual(job, step)


@kind
def leaves_saved(job: Job, step: int) -> None:
    """Plain tensors are trained, and saved with the loss."""
    if step == 0:
        made = torch.Generator().manual_seed(0)
        job.model = nn.Module()
        job.weights = [torch.randn(8, 4, generator=made).requires_grad_()]
        job.optimizer = torch.optim.SGD(job.weights, 0.1)
    x, y = batch(step)
    loss = F.cross_entropy(x @ job.weights[0], y, reduction="sum") / total(y)
    loss.backward()
    dist.all_reduce(job.weights[0].grad)
    job.optimizer.step()
    job.optimizer.zero_grad()
    torch.save({"weights": job.weights, "loss": loss}, io.BytesIO())


@kind
def other_default_device(job: Job, step: int) -> None:
    """New tensors are on another device, unless one is named."""
    if step == 0:
        torch.set_default_device("meta")
        job.__init__()
    usual(job, step)


if __name__ == "__main__":
    run(KINDS)
