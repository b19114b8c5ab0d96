"""A job of 8 steps, and what goes wrong with it, or with the audit of it: python injected.py NAME.

It averages by hand and prints a digest of its weights. What is done to the audit is left out where there is none.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

AT = 3
"""The step before which it happens."""


class Job:
    """What a fault may touch."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.rank = dist.get_rank()
        self.model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        capture = sys.modules.get("failuremap.audit.capture")
        self.recorder = getattr(capture, "current", None)
        self.trace = os.environ.get("FAILUREMAP_TRACE_DIR", "")

    def dtype(self) -> torch.dtype:
        """The type of the parameters as they are now."""
        return next(self.model.parameters()).dtype


class Points(Dataset):
    """Uneven batches of points, one each step."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        rank = dist.get_rank() if dist.is_initialized() else 0
        made = torch.Generator().manual_seed(10 * step + rank)
        x = torch.randn(5 + 3 * rank, 8, generator=made)
        return x, (x[:, :1] > 0).long()[:, 0] + 2 * (x[:, 1] > 0).long()


def train(job: Job, before_step: Callable[[Job, int], None], workers: int = 0) -> None:
    """The training loop, as people write it."""
    for step, (x, y) in enumerate(DataLoader(Points(), batch_size=None, num_workers=workers)):
        before_step(job, step)
        count = torch.tensor(float(len(x)))
        dist.all_reduce(count)
        for a, b in zip(x.split(4), y.split(4), strict=True):
            logits = job.model(a.to(job.dtype()))
            (F.cross_entropy(logits, b, reduction="sum") / count.to(logits.dtype)).backward()
        for parameter in job.model.parameters():
            dist.all_reduce(parameter.grad)
        job.optimizer.step()
        job.optimizer.zero_grad()
    held = b"".join(p.detach().contiguous().view(torch.uint8).numpy().tobytes() for p in job.model.parameters())
    print("weights", hashlib.sha256(held).hexdigest(), flush=True)


FAULTS: dict[str, Callable[[Job, int], None]] = {}


def fault(function: Callable[[Job, int], None]) -> Callable[[Job, int], None]:
    """Enters what happens before each step, under its name."""
    FAULTS[function.__name__.strip("_").replace("_", "-")] = function
    return function


def _broken(*args: object, **kwargs: object) -> None:
    raise RuntimeError("injected")


def _breaking(place: str) -> Callable[[Job, int], None]:
    def before_step(job: Job, step: int) -> None:
        if step == AT and job.recorder is not None:
            module, _, path = place.partition(":")
            holder = sys.modules[f"failuremap.audit.{module}"]
            *inner, name = path.split(".")
            for part in inner:
                holder = getattr(holder, part)
            setattr(holder, name, _broken)

    return before_step


# functions of the audit's own that hooks of it call
PLACES = {
    "gradient": "capture.watching:Watched.read",
    "pass": "capture.recorder:Recorder._running",
    "opened-pass": "capture.recorder:Backward",
    "closed-pass": "capture.recorder:Recorder.flush_backward",
    "payload": "capture.recorder:together",
    "loss": "capture.loss.losses:_described",
    "loss-mark": "capture.loss.losses:mark",
    "loss-event": "capture.recorder:Recorder.on_loss",
    "terms": "capture.loss.graph:terms",
    "step": "capture.optimizers:_found",
    "written-step": "capture.optimizers:_write_step",
    "counted-step": "capture.recorder:Recorder.after_step",
    "collective": "capture.calls:Calls.add",
    "collectives": "capture.collectives:tell",
    "record": "trace:TraceWriter.write",
    "end": "capture.recorder:Recorder._write_end",
}
FAULTS |= {f"broken-{name}": _breaking(place) for name, place in PLACES.items()}


@fault
def nothing(job: Job, step: int) -> None:
    """The job as it is."""


@fault
def disk_full(job: Job, step: int) -> None:
    """No file of this process grows any more, but that the digest fits into what it prints."""
    if step == AT:
        size = max((os.path.getsize(path) for path in _traces(job)), default=4096)
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(size + 100, 4096), resource.RLIM_INFINITY))


@fault
def disk_full_for_a_while(job: Job, step: int) -> None:
    """The disk has room again later."""
    disk_full(job, step)
    if step == AT + 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _traces(job: Job) -> list[str]:
    return [os.path.join(job.trace, name) for name in os.listdir(job.trace)] if job.trace else []


@fault
def folder_deleted(job: Job, step: int) -> None:
    """Somebody clears up."""
    if step == AT and job.rank == 0 and job.trace:
        shutil.rmtree(job.trace)


@fault
def folder_never_there(job: Job, step: int) -> None:
    """The folder goes before the first record."""
    if step == 0 and job.trace:
        shutil.rmtree(job.trace, ignore_errors=True)


@fault
def trace_deleted(job: Job, step: int) -> None:
    """One rank's file goes."""
    if step == AT and job.trace and job.rank == 1:
        os.remove(next(path for path in _traces(job) if "rank00001" in path))


@fault
def trace_emptied(job: Job, step: int) -> None:
    """One rank's file is cut off while it is written."""
    if step == AT and job.trace and job.rank == 1:
        os.truncate(next(path for path in _traces(job) if "rank00001" in path), 0)


@fault
def rank_killed(job: Job, step: int) -> None:
    """One rank is gone."""
    if step == AT and job.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@fault
def rank_leaves(job: Job, step: int) -> None:
    """Both ranks leave without a word, and without an error."""
    if step == AT:
        print("weights none", flush=True)
        os._exit(0)


@fault
def rank_slow(job: Job, step: int) -> None:
    """One rank waits at every step."""
    time.sleep(0.2 * job.rank)


@fault
def clock_jumps(job: Job, step: int) -> None:
    """All clocks of the process go back and forth."""
    if step == 0:
        chosen = random.Random(0)
        for name in ("time", "monotonic", "perf_counter"):
            setattr(time, name, lambda: chosen.choice([-1e9, 0.0, 1e9, 4e9]))


@fault
def hooks_cleared(job: Job, step: int) -> None:
    """The script removes all hooks of its parameters."""
    if step == AT:
        for parameter in job.model.parameters():
            (parameter._backward_hooks or {}).clear()


@fault
def hooks_cleared_of_one(job: Job, step: int) -> None:
    """The hooks of one parameter on one rank."""
    if step == AT and job.rank == 1:
        (job.model[0].weight._backward_hooks or {}).clear()


@fault
def optimizer_hooks_cleared(job: Job, step: int) -> None:
    """The script removes all hooks of optimizers."""
    if step == AT:
        sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks.clear()


@fault
def parameter_replaced(job: Job, step: int) -> None:
    """A layer gets another parameter, and the optimizer is told of it."""
    if step == AT:
        old = job.model[2].weight
        job.model[2].weight = nn.Parameter(old.detach() * 0.5)
        job.optimizer.param_groups[0]["params"] = list(job.model.parameters())


@fault
def parameter_registered_again(job: Job, step: int) -> None:
    """The same parameter is taken out of its module, and registered anew."""
    if step == AT:
        weight = job.model[2].weight
        del job.model[2].weight
        job.model[2].register_parameter("weight", weight)


@fault
def layer_replaced(job: Job, step: int) -> None:
    """A new last layer and a new optimizer."""
    if step == AT:
        torch.manual_seed(5)
        job.model[2] = nn.Linear(16, 4)
        job.optimizer = torch.optim.SGD(job.model.parameters(), 0.1)


@fault
def dtype_changed(job: Job, step: int) -> None:
    """The model moves to another type, and the optimizer starts anew."""
    if step == AT:
        job.model.double()
        job.optimizer = torch.optim.SGD(job.model.parameters(), 0.1)


@fault
def data_exchanged(job: Job, step: int) -> None:
    """The memory behind the parameters is another at every step."""
    for parameter in job.model.parameters():
        parameter.data = parameter.data.clone()


@fault
def loader_workers(job: Job, step: int) -> None:
    """Two workers of a data loader are forked from this process."""


def main() -> None:
    """Run the job with what the command line names."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    name = sys.argv[1]
    train(Job(), FAULTS[name], workers=2 if name == "loader-workers" else 0)


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
