"""The verdict on a step of 1,024 ranks x 8 micro-batches comes within 10 s and 2 GiB, right and wrong.

The traces are simulated: 8,192 contributions of 20 tensors with counts of their own, one file a rank. Judged is the
command `failuremap diagnose` from start to end, its CPU seconds and its peak of resident memory: where a machine does
other work, the wall time tells of that.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from failuremap.audit.trace import TraceWriter
from support.runs import plain_environment, verdict

SECONDS, GIBIBYTES = 10.0, 2.0
TENSORS, ROWS = 20, 128


def simulate(folder: Path, ranks: int, window: int, *, weighted: bool) -> None:
    """Write the traces of one step, whose update weighs contributions by their counts or all alike."""
    rng = np.random.default_rng(0)
    counts = rng.integers(100, 500, size=(ranks, window))
    weights = counts / counts.sum() if weighted else np.full(counts.shape, 1 / counts.size)
    gradients = rng.standard_normal((ranks, window, TENSORS * ROWS), dtype=np.float32)
    update = np.einsum("rm,rml->l", weights, gradients, optimize=True).astype(np.float32)
    held = rng.standard_normal(TENSORS * ROWS, dtype=np.float32)
    for rank in range(ranks):
        write_rank(folder, rank, counts[rank], gradients[rank], update, held)


def write_rank(folder: Path, rank: int, counts: Any, gradients: Any, update: Any, held: Any) -> None:
    """Write what one rank saw of the step."""
    ids = list(range(TENSORS))
    writer = TraceWriter(folder / f"rank{rank:05d}-1.trace")
    writer.write(
        {"kind": "header", "format": 2, "run": "simulated", "rank": rank, "world_size": RANKS, "unit": "token"}
    )
    for index in ids:
        shape = {"name": f"layer{index}.weight", "shape": [64, 64], "dtype": "float32", "rows": ROWS, "coordinates": 64}
        writer.write({"kind": "parameter", "id": index, **shape})
    for number, (count, gradient) in enumerate(zip(counts, gradients, strict=True)):
        loss = {"function": "cross_entropy", "reduction": "mean", "site": "train.py:41", "classes": 10}
        loss |= {"count": float(count), "scale": 1.0, "fingerprint": 1000.0 * rank + number}
        told = {"via": "backward", "kept": ids if number else [], "altered": [], "unseen": [], "path": {}, "counts": []}
        writer.write({"kind": "backward", "id": number, "parameters": ids, "losses": [loss], **told}, gradient)
    step = {"optimizer": 0, "count": 0, "parameters": ids, "absent": [], "unwatched": [], "weights": "sketch"}
    writer.write({"kind": "step", **step}, np.concatenate([update, held]))
    end = {"parameters": ids, "errors": [], "steps": 1, "comm_hooks": []}
    writer.write({"kind": "end", **end}, (held - 0.1 * update).astype(np.float32))
    writer.close()


def measured(ranks: int, window: int, *, weighted: bool) -> tuple[float, float]:
    """Return CPU seconds and peak GiB of one diagnosis, after a look at what it said."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        simulate(Path(folder), ranks, window, weighted=weighted)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "failuremap", "diagnose", folder]
        done = subprocess.run(command, capture_output=True, env=plain_environment(), check=False, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == (0 if weighted else 1), done.stdout + done.stderr
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, after.ru_maxrss / 2**20


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--window", type=int, default=8)
    asked = parser.parse_args()
    RANKS = asked.ranks
    seen = [measured(asked.ranks, asked.window, weighted=weighted) for weighted in (True, False)]
    for (cpu, peak), kind in zip(seen, ("right", "wrong"), strict=True):
        print(f"{kind}: {cpu:.1f} s of CPU, {peak:.2f} GiB", flush=True)
    missed = verdict("GiB of resident memory", max(peak for _, peak in seen), GIBIBYTES)
    sys.exit(verdict("CPU seconds to the verdict", max(cpu for cpu, _ in seen), SECONDS) or missed)
