"""Runs a script of several ranks under the audit, then a reference run on what it kept, and judges both."""

from __future__ import annotations

import textwrap
from pathlib import Path

from audit.capture.watched import run
from audit.harness import REPOSITORY, JobServer
from failuremap.audit import diagnose
from failuremap.audit.launch.reference import find_reference
from failuremap.audit.model import Verdict

_RUN = REPOSITORY / "src" / "failuremap" / "audit" / "capture" / "reference" / "__main__.py"

NET = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.up, self.down = nn.Embedding(300, 8), nn.Linear(8, 20), nn.Linear(20, 5)
    def forward(self, x):
        return self.down(self.up(self.embed(x)).relu())
"""
START = (
    """
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
"""
    + NET
)
END = "\ndist.destroy_process_group()\n"

OBJECTIVE = """
import torch.nn.functional as F
def objective(model, batch):
    (x,), (y,) = batch.args, batch.targets
    return F.cross_entropy(model(x), y, reduction="sum"), len(y)
"""
REFERENCE = NET + "build = Net\n" + OBJECTIVE


def keep(server: JobServer, folder: Path, source: str, reference: str, *, nproc: int = 2) -> None:
    """Runs a script under the audit with a reference in mind; its first lines define Net and start the ranks."""
    (folder / "ref.py").write_text(textwrap.dedent(reference))
    wanted = find_reference(f"{folder / 'ref.py'}:objective").wanted
    source = START + textwrap.dedent(source) + END
    result = run(server, folder, source, nproc=nproc, env={"FAILUREMAP_REFERENCE": wanted})
    assert result.ok, result.output[-3000:]


def compare(server: JobServer, folder: Path) -> Verdict:
    """Runs the reference on what was kept, and judges."""
    done = server.run_job(str(_RUN), [str(folder / "trace"), str(folder / "ref.py"), "objective"], None)
    assert done.ok, done.output[-3000:]
    return diagnose(folder / "trace")


def referred(server: JobServer, folder: Path, source: str, reference: str = REFERENCE, *, nproc: int = 2) -> Verdict:
    """The verdict on a script with a reference."""
    keep(server, folder, source, reference, nproc=nproc)
    return compare(server, folder)


def names(verdict: Verdict) -> list[str]:
    """The mechanisms of all findings."""
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})
