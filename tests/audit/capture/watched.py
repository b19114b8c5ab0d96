"""Runs a small script under the audit in a fork, and reads what its ranks wrote down."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from audit.harness import JobResult, JobServer
from failuremap.audit import trace
from failuremap.audit.trace import Record

START = """
import torch
import torch.nn.functional as F
torch.manual_seed(0)
"""


class Seen:
    """One rank's trace, with its numbers at hand."""

    def __init__(self, opened: trace.Trace) -> None:
        self.trace = opened
        self.records = list(opened.records())
        self.rows = {r.fields["id"]: r.fields["rows"] for r in self.of("parameter")}
        self.names = {r.fields["id"]: r.fields["name"] for r in self.of("parameter")}

    def of(self, kind: str) -> list[Record]:
        """All records of a kind."""
        return [record for record in self.records if record.kind == kind]

    def numbers(self, record: Record) -> dict[str, Any]:
        """The first numbers of a record by the names of their parameters."""
        found, at = {}, 0
        for id in record.fields["parameters"]:
            found[self.names[id]] = record.payload[at : at + self.rows[id]].astype(np.float64)
            at += self.rows[id]
        return found

    def in_order(self, record: Record) -> Any:
        """The first numbers of a record, in the order of the parameters' numbers and not of their arrival."""
        by_name = self.numbers(record)
        return np.concatenate([by_name[self.names[id]] for id in sorted(record.fields["parameters"])])

    @property
    def losses(self) -> list[dict[str, Any]]:
        """All losses that were seen, in the order of the backward passes."""
        return [loss for record in self.of("backward") for loss in record.fields["losses"]]

    @property
    def errors(self) -> list[str]:
        """What went wrong inside the audit."""
        return list((self.trace.end or {}).get("errors", ["no end record"]))


def run(
    server: JobServer,
    folder: Path,
    source: str,
    *,
    nproc: int = 1,
    audited: bool = True,
    env: dict[str, str] | None = None,
) -> JobResult:
    """Runs a script on some ranks; its first lines import torch and set the seed."""
    script = folder / "train.py"
    script.write_text(START + textwrap.dedent(source))
    traces = folder / "trace"
    traces.mkdir(exist_ok=True)
    return server.run_job(str(script), [], nproc, traces if audited else None, timeout=50, env=env)


def watch(server: JobServer, folder: Path, source: str, **how: Any) -> Seen:
    """Runs a script that must end well on one rank, and returns what was seen."""
    result = run(server, folder, source, **how)
    assert result.ok, result.output[-3000:]
    (only,) = trace.read_folder(folder / "trace")
    return Seen(only)
