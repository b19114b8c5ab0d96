"""What of a box still runs after its end."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_GONE = "ZX"
"""States of a process that has ended and whose exit code nobody has asked for, or that is just going."""


class Remains:
    """The processes of a box: those of its pid namespace, of its session, and its children at the time of `note`."""

    def __init__(self) -> None:
        self._own = _namespace(os.getpid())
        self._namespace = self._own
        self._session = -1
        self._pids: set[int] = set()

    def note(self, pid: int) -> None:
        """Takes down what belongs to a box, given its innermost process; nothing where that has ended."""
        with contextlib.suppress(OSError):
            if (session := os.getsid(pid)) == os.getsid(0):
                return  # no box shares the judge's session: the number is another process's by now
            self._session = session
            self._namespace = _namespace(pid)
            self._pids = _family(pid)

    def running(self) -> str | None:
        """Says which process still runs, if any does, and ends it."""
        for pid in map(int, filter(str.isdigit, (each.name for each in Path("/proc").iterdir()))):
            with contextlib.suppress(OSError):
                if pid > 1 and self._is_ours(pid) and _state(pid) not in _GONE:
                    os.kill(pid, signal.SIGKILL)
                    return f"process {pid} of it still runs"
        return None

    def _is_ours(self, pid: int) -> bool:
        within = self._namespace != self._own and _namespace(pid) == self._namespace
        return within or pid in self._pids or os.getsid(pid) == self._session


def _family(pid: int) -> set[int]:
    """Returns a process and all that descend from it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return {pid}.union(*(_family(int(child)) for child in children))


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]


def _namespace(pid: int) -> str:
    """Returns a name of the process's pid namespace."""
    return str(Path(f"/proc/{pid}/ns/pid").readlink())
