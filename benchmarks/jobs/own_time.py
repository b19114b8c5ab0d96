"""Trains the transformer of the other benchmarks and writes what the audit's own code took of each step.

Counted is the CPU time of this thread inside every entry of the audit, the outermost one alone. Not in it are a few
microseconds around what the audit wraps, such as a collective, and what is in no cache any more after an entry.

torchrun --nproc-per-node 2 benchmarks/jobs/own_time.py --size 50m --steps 12 --every 1 --out times
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--size", choices=("tiny", "10m", "50m"), default="50m")
parser.add_argument("--wrap", choices=("ddp", "fsdp"), default="ddp")
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--steps", type=int, default=14)
parser.add_argument("--every", type=int, default=64)
parser.add_argument("--out", required=True, help="what each rank measured: OUT.RANK.json")
options = parser.parse_args()
torch.set_num_threads(1)
os.environ |= {"FAILUREMAP_TRACE_DIR": tempfile.mkdtemp(prefix="bench-"), "FAILUREMAP_EVERY": str(options.every)}

from failuremap.audit import capture  # noqa: E402 - after the environment that it reads
from failuremap.audit.capture import calls, collectives, optimizers, recorder  # noqa: E402
from failuremap.audit.capture.held import sharded  # noqa: E402
from failuremap.audit.capture.loss import graph, losses  # noqa: E402

spent, depth = [0.0], [0]


def counted(original: Callable[..., object]) -> Callable[..., object]:
    """Return the same function, whose time is counted unless another one that is counted calls it."""

    def run(*args: object, **kwargs: object) -> object:
        if depth[0]:
            return original(*args, **kwargs)
        depth[0], started = 1, time.thread_time()
        try:
            return original(*args, **kwargs)
        finally:
            spent[0] += time.thread_time() - started
            depth[0] = 0

    return run


for holder, names in (
    (recorder.Recorder, ("_after_hooks", "begin_backward", "end_backward", "on_loss", "heed")),
    (optimizers, ("on_step",)),
    (graph, ("_begin",)),
    (losses, ("watch_result", "_described")),
    # not _noted itself, which looks at who calls it
    (collectives, ("_asked", "_tensors", "caller_of", "_span")),
    (calls.Calls, ("add", "started", "awaited")),
    (sharded, ("_is_known", "on_gathered")),
):
    for name in names:
        setattr(holder, name, counted(getattr(holder, name)))
hook_of = recorder.hook_of
recorder.hook_of = sharded.hook_of = lambda *args: counted(hook_of(*args))
capture.install()

import torch.nn.functional as F  # noqa: E402
from transformer import SIZES, Transformer, wrapped  # noqa: E402

dist.init_process_group("gloo")
vocabulary, width, blocks = SIZES[options.size]
torch.manual_seed(0)
model = wrapped(Transformer(vocabulary, width, blocks), options.wrap)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
steps = []
for _ in range(options.steps):
    in_part, spent[0], started = capture.current.sampling.in_part, 0.0, time.process_time()
    optimizer.zero_grad()
    tokens = torch.randint(0, vocabulary, (options.batch, 65))
    F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
    optimizer.step()
    steps.append({"cpu": time.process_time() - started, "own": spent[0], "in_part": in_part})
rank = dist.get_rank()
dist.barrier()
dist.destroy_process_group()
Path(f"{options.out}.{rank}.json").write_text(json.dumps({"steps": steps, "ended": time.time()}))
