"""A look at the traces of a job that still runs: what its steps so far weigh, and whether one is wrong.

`python -m failuremap.audit.live FOLDER PARENT UNIT PROMISE` looks again and again, as long as the process PARENT lives.
It talks to nobody: what it finds stands in files of the folder, which the ranks read when they step.

    live.jsonl   one line for each step that was judged: its number and its scalars
    wrong.json   the first finding: its sentence, its step, and the optimizer step at which all ranks may stop
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from failuremap.audit.faults import Judged, Promise
from failuremap.audit.model import Finding
from failuremap.errors import TraceError

SCALARS, WRONG = "live.jsonl", "wrong.json"

# a look takes this share of the time between two looks, at most
_SHARE = 0.05
_LEAST_SECONDS = 1.0
# the ranks stop at one step, which none of them has reached when the first of them reads of it
_AHEAD = 2


@dataclass(frozen=True)
class Look:
    """What the traces of a running job say."""

    judged: list[Judged] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    step_count: int = 0
    """Optimizer steps of the rank that is furthest."""
    missing_ranks: list[int] = field(default_factory=list)
    """Ranks without a trace in the folder; nothing is judged without them."""


class Looker:
    """Looks at one folder and writes down what is new."""

    def __init__(self, folder: Path, unit: str | None, promise: Promise) -> None:
        self.folder, self.unit, self.promise = folder, unit, promise
        self.told = 0
        self.size = 0
        self.wrong = False

    def look(self) -> None:
        """Looks once; does nothing where no trace has grown, and nothing where one cannot be read yet."""
        from failuremap.audit.verdict import so_far

        size = sum(path.stat().st_size for path in self.folder.glob("*.trace"))
        if size == self.size:
            return
        self.size = size
        try:
            found = so_far(self.folder, self.unit, self.promise)
        except TraceError:
            return
        self._tell(found)

    def _tell(self, found: Look) -> None:
        from failuremap.audit.scalars import scalars

        new = [step for step in found.judged if step.number > self.told]
        lines = [json.dumps({"step": step.number, **scalars(step)}) + "\n" for step in new]
        if lines:
            with open(self.folder / SCALARS, "a") as file:
                file.write("".join(lines))
            self.told = new[-1].number
        if found.findings and not self.wrong:
            self.wrong = True
            first = found.findings[0]
            said = {
                "sentence": first.sentence,
                "step": min(first.steps, default=0),
                "stop_at": found.step_count + _AHEAD,
            }
            part = self.folder / f"{WRONG}.part"
            part.write_text(json.dumps(said))
            part.replace(self.folder / WRONG)


def main(folder: Path, parent: int, unit: str | None, promise: Promise) -> None:
    """Looks until the parent is gone, and once more."""
    os.nice(19)
    looker = Looker(folder, unit, promise)
    while True:
        gone = os.getppid() != parent
        started = time.monotonic()
        looker.look()
        if gone:
            return
        time.sleep(max(_LEAST_SECONDS, (time.monotonic() - started) / _SHARE))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] or None, "sum" if sys.argv[4] == "sum" else "mean")
