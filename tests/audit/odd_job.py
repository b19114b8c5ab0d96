"""A job that the scripts beside do odd things to. Its warnings are errors.

Two ranks on uneven batches; each adds up and divides by all examples. It prints a digest of its weights.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

AT = 3
"""The step before which it happens."""
STEPS = 6


class Job:
    """The model, its optimizer, and how they train."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        sizes = ((8, 16), (16, 16), (16, 4))
        self.model: Any = nn.Sequential(
            *(layer for size in sizes for layer in (nn.Linear(*size, device="cpu"), nn.Tanh()))
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.loader: Any = None

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """This rank's batch, from workers of a data loader where there are any."""
        return batch(step) if self.loader is None else next(self.loader)

    def gradients(self, step: int) -> None:
        """Forward and backward."""
        x, y = self.batch(step)
        self.loss(x, y, total(y)).backward()

    def loss(self, x: Tensor, y: Tensor, count: Tensor) -> Tensor:
        """This rank's part of the mean."""
        return F.cross_entropy(self.model(x), y, reduction="sum") / count

    def add_up(self) -> None:
        """Adds the gradients up over the ranks."""
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)


def batch(step: int) -> tuple[Tensor, Tensor]:
    rank = int(os.environ["RANK"])
    made = torch.Generator("cpu").manual_seed(10 * step + rank)
    x = torch.randn(5 + 3 * rank, 8, generator=made, device="cpu")
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()


def total(y: Tensor) -> Tensor:
    """Examples of all ranks."""
    count = torch.tensor(float(len(y)), device="cpu")
    dist.all_reduce(count)
    return count


def usual(job: Job, step: int) -> None:
    """A step, as people write it."""
    job.gradients(step)
    job.add_up()
    job.optimizer.step()
    job.optimizer.zero_grad()


def run(kinds: dict[str, Callable[[Job, int], None]]) -> None:
    """Runs the job in the way that the command line names."""
    warnings.simplefilter("error")
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    job, printing = Job(), sys.stdout
    for step in range(STEPS):
        kinds[sys.argv[1]](job, step)
    held = b"".join(p.detach().contiguous().view(torch.uint8).numpy().tobytes() for p in job.model.parameters())
    print("weights", hashlib.sha256(held).hexdigest(), file=printing, flush=True)
    dist.destroy_process_group()
