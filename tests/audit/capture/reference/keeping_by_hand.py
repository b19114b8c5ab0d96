"""What ranks keep, written by hand, and reference runs on it inside the test's own process."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from failuremap.audit import trace
from failuremap.audit.launch.reference import GRADIENTS
from failuremap.audit.trace import Record

OBJECTIVE = """
import torch
import torch.nn.functional as F
def build():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3)
def objective(model, batch):
    (x,), (y,) = batch.args, batch.targets
    return F.cross_entropy(model(x), y, reduction="sum"), len(y)
"""


def one_pass(torch: Any, number: int = 0, *, seed: int = 0, rows: int = 5) -> dict[str, Any]:
    """A backward pass on a batch of its own."""
    drawn = torch.Generator().manual_seed(seed)
    inputs, targets = torch.randn(rows, 4, generator=drawn), torch.randint(3, (rows,), generator=drawn)
    call = {"args": (inputs,), "kwargs": {}, "model": "Linear"}
    return {"backward": number, "calls": [call], "targets": [targets], "told": ()}


def keep(folder: Path, torch: Any, *, rank: int = 0, world_size: int = 1, **changes: Any) -> None:
    """Writes what one rank keeps of a linear layer from 4 to 3."""
    drawn = torch.Generator().manual_seed(1)
    parameters = {
        "weight": {"local": torch.randn(3, 4, generator=drawn), "trained": True},
        "bias": {"local": torch.randn(3, generator=drawn), "trained": True},
    }
    kept = {
        "rank": rank, "world_size": world_size, "optimizer": 0, "count": 0, "left_out": [], "buffers": {},
        "evaluating": [], "parameters": parameters if rank == 0 else {}, "passes": [one_pass(torch, seed=rank)],
    }  # fmt: skip
    torch.save(kept | changes, folder / f"kept-rank{rank:05d}-0-0.pt")


def refer(folder: Path, source: str = OBJECTIVE) -> list[Record]:
    """Runs a reference and returns what it wrote."""
    from failuremap.audit.capture.reference.__main__ import main

    (folder / "ref.py").write_text(textwrap.dedent(source))
    assert main([str(folder), str(folder / "ref.py"), "objective"]) == 0
    return list(trace.read(folder / GRADIENTS).records())


def refusal(folder: Path, source: str = OBJECTIVE) -> str:
    """Why a reference run compared nothing; '' if it did."""
    return next((record.fields["why"] for record in refer(folder, source) if record.kind == "refused"), "")
