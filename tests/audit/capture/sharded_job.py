"""A small model that scripts shard as they like, run on several ranks under the audit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from audit.capture.watched import Seen, run
from audit.harness import JobServer
from failuremap.audit import trace
from failuremap.audit.steps.story import read_rank
from failuremap.audit.steps.windows import Assembler, Step

START = """
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
dist.init_process_group("gloo")
rank = dist.get_rank()
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.up, self.down = nn.Embedding(300, 8), nn.Linear(8, 20), nn.Linear(20, 5)
    def forward(self, x):
        return self.down(torch.relu(self.up(self.embed(x)))).clone()
model = Model()
generator = torch.Generator().manual_seed(rank)
def batch():
    return torch.randint(300, (7,), generator=generator), torch.randint(5, (7,), generator=generator)
def back():
    x, y = batch()
    F.cross_entropy(model(x), y).backward()
def sharded(**how):
    fully_shard(model.up, **how)
    fully_shard(model, **how)
def sgd():
    return torch.optim.SGD(model.parameters(), lr=0.1)
"""
END = "\ndist.destroy_process_group()\n"


def watch_ranks(job_server: JobServer, folder: Path, source: str, nproc: int = 2) -> list[Seen]:
    """Runs a script on some ranks and returns what each wrote."""
    result = run(job_server, folder, START + source + END, nproc=nproc)
    assert result.ok, result.output[-3000:]
    return [Seen(opened) for opened in trace.read_folder(folder / "trace")]


def last_step(folder: Path) -> Step:
    """The last step of a run, put together."""
    ranks = [read_rank(opened) for opened in trace.read_folder(folder / "trace")]
    *_, step = Assembler(ranks, len(ranks)).steps()
    return step


def is_mean(step: Step, tolerance: float = 1e-5) -> bool:
    """Whether the update of every rank is the mean of all contributions."""
    mean = step.contributions_KL.mean(axis=0)
    return all(float(np.abs(row - mean).max()) <= tolerance * float(np.abs(mean).max()) for row in step.updates_RL)
