"""What the look at the running job has found, brought back into it: a warning, scalars for the training log, a stop.

Each rank reads two small files of the trace folder when it steps, a few times a second at most. No rank waits for
another: all stop at the step that the file names, or at the next one if they read of it later.
"""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from failuremap.errors import JobStopped

if TYPE_CHECKING:
    from failuremap.audit.scalars import Log

# as audit/live.py names them, which this process must not import
SCALARS, WRONG = "live.jsonl", "wrong.json"
_SECONDS = 0.25


class Notices:
    """The findings of one trace folder, as far as this rank has read them.

    Args:
        stop: Whether the job is to stop at the first wrong step.
        logs: What the scalars go to, on the rank that speaks.
    """

    def __init__(self, stop: bool, logs: list[Log]) -> None:
        self.stop, self.logs = stop, logs
        self.wrong: dict[str, Any] | None = None
        self._next = 0.0
        self._offset = 0

    def read(self, folder: Path, speaks: bool) -> None:
        """Reads what is new, if it is time to; on the rank that speaks the warning and the scalars go out.

        Args:
            folder: Where the trace is written.
            speaks: Whether this rank is the one that does.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _SECONDS
        if self.wrong is None and os.path.exists(folder / WRONG):
            self.wrong = json.loads((folder / WRONG).read_text())
            if speaks:
                logging.getLogger("failuremap").warning("%s", self.sentence(folder))
        if speaks and self.logs:
            self.drain(folder)

    def drain(self, folder: Path) -> None:
        """Hands the scalars that are new to the logs."""
        path = folder / SCALARS
        if not os.path.exists(path):
            return
        with open(path, "rb") as file:
            file.seek(self._offset)
            whole, _, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + 1 if whole else 0
        for line in whole.splitlines():
            found = json.loads(line)
            step = found.pop("step")
            for name, value in found.items():
                for log in self.logs:
                    log(name, value, step)

    def sentence(self, folder: Path) -> str:
        """What is wrong, since when, and where to read on."""
        assert self.wrong is not None
        return (
            f"step {self.wrong['step']} is wrong: {self.wrong['sentence']} "
            f"The whole verdict:  failuremap diagnose {folder}"
        )

    def stop_if_due(self, step: int, folder: Path) -> None:
        """Raises JobStopped where the job is to stop and the agreed step has come."""
        if self.stop and self.wrong is not None and step >= self.wrong["stop_at"]:
            raise JobStopped(f"the job was to stop at the first wrong step: {self.sentence(folder)}")
