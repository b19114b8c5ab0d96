"""The processes of a box and what they have used, read from /proc by the one who started the outermost."""

from __future__ import annotations

import os
import re
from pathlib import Path

_UTIME, _STIME = 11, 12


def chain(pid: int) -> list[int]:
    """Returns a process, its only child, the child's, and so on; the process alone where children cannot be seen."""
    found = [pid]
    while children := _text(Path(f"/proc/{found[-1]}/task/{found[-1]}/children")).split():
        found.append(int(children[0]))
    return found


def measure(pid: int) -> tuple[float, int]:
    """Returns seconds of processor time and the most bytes resident; zeros where the process is gone."""
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    peak = re.search(r"VmHWM:\s+(\d+) kB", _text(Path(f"/proc/{pid}/status")))
    ticks = int(fields[_UTIME]) + int(fields[_STIME]) if len(fields) > _STIME else 0
    return ticks / os.sysconf("SC_CLK_TCK"), int(peak[1]) * 1024 if peak else 0


def starved_s(pid: int) -> float:
    """Returns how long a process has waited for a processor while it could have run; 0 where that cannot be seen."""
    fields = _text(Path(f"/proc/{pid}/schedstat")).split()
    return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
