"""Trains the transformer of the other benchmarks in one process and writes what the audit's own code took of each step.

Counted is the CPU time of this thread inside every entry of the audit, the outermost one alone.

python benchmarks/jobs/own_time.py --size 50m --steps 12 --every 64 --out times.json
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import torch

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--size", choices=("tiny", "10m", "50m"), default="50m")
parser.add_argument("--steps", type=int, default=14)
parser.add_argument("--every", type=int, default=64)
parser.add_argument("--out", required=True)
options = parser.parse_args()
torch.set_num_threads(1)
os.environ |= {"FAILUREMAP_TRACE_DIR": tempfile.mkdtemp(prefix="bench-"), "FAILUREMAP_EVERY": str(options.every)}
os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "FAILUREMAP_RUN_ID": "bench"}

from failuremap.audit import capture  # noqa: E402 - after the environment that it reads
from failuremap.audit.capture import graph, losses, optimizers  # noqa: E402
from failuremap.audit.capture.recorder import Recorder  # noqa: E402

spent, depth = [0.0], [0]


def timed(holder: object, name: str) -> None:
    """Count the time in one function or method, unless another one that is counted calls it."""
    original = getattr(holder, name)

    def run(*args: object, **kwargs: object) -> object:
        if depth[0]:
            return original(*args, **kwargs)
        depth[0], started = 1, time.thread_time()
        try:
            return original(*args, **kwargs)
        finally:
            spent[0] += time.thread_time() - started
            depth[0] = 0

    setattr(holder, name, run)


for entry in ("_hook", "_after_hooks", "end_backward", "begin_backward", "on_loss", "heed"):
    timed(Recorder, entry)
for module, entry in ((optimizers, "on_step"), (graph, "_begin"), (losses, "watch_result"), (losses, "_described")):
    timed(module, entry)
capture.install()

import torch.nn.functional as F  # noqa: E402
from transformer import SIZES, Transformer  # noqa: E402

vocabulary, width, blocks = SIZES[options.size]
torch.manual_seed(0)
model = Transformer(vocabulary, width, blocks)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
steps = []
for _ in range(options.steps):
    in_part, spent[0], started = capture.current.sampling.in_part, 0.0, time.process_time()
    optimizer.zero_grad()
    tokens = torch.randint(0, vocabulary, (16, 65))
    F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
    optimizer.step()
    steps.append({"cpu": time.process_time() - started, "own": spent[0], "in_part": in_part})
Path(options.out).write_text(json.dumps(steps))
