"""Finds and ends the processes that a run left behind: in the ranks' sessions, or with the run's marker.

Only Linux lists the sessions and environments of processes (/proc). Elsewhere the ranks' process groups are ended,
unseen.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path

TERMINATE_SECONDS = 2.0
"""How long a process that was left behind has to end after SIGTERM, before SIGKILL."""

_GONE_SECONDS = 5.0
_POLL_SECONDS = 0.01


def end_leftovers(sessions: Collection[int], marker: str) -> None:
    """End every process of the sessions, and every one with the marker in its environment.

    The leaders of the sessions must not have been waited for: until then nobody else can get their numbers.

    Args:
        sessions: Process ids of the ranks, each the leader of a session and a process group.
        marker: `NAME=value` in the environment of every process of this run.
    """
    if not Path("/proc/self").is_dir():
        _end_groups(sessions)
        return

    def find() -> list[int]:
        return find_leftovers(sessions, marker)

    if not _send_until_gone(find, signal.SIGTERM, TERMINATE_SECONDS):
        _send_until_gone(find, signal.SIGKILL, _GONE_SECONDS)


def find_leftovers(sessions: Collection[int], marker: str) -> list[int]:
    """List the living processes of the sessions or with the marker, this one excepted."""
    wanted = marker.encode()
    pids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if pid != os.getpid() and _belongs(pid, sessions, wanted)]


def _belongs(pid: int, sessions: Collection[int], marker: bytes) -> bool:
    try:
        stat = process_stat(pid)
        if stat[0] in "ZX":
            return False
        return int(stat[3]) in sessions or marker in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def process_stat(pid: int) -> list[str]:
    """Read /proc/PID/stat from the state on: [0] state, [1] parent, [3] session, [19] start time in ticks."""
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return text.rpartition(")")[2].split()


def _send_until_gone(find: Callable[[], list[int]], number: signal.Signals, seconds: float) -> bool:
    """Send the signal once to each process found, until none is found; False if some outlived the time given."""
    sent: set[int] = set()
    deadline = time.monotonic() + seconds
    while found := find():
        for pid in set(found) - sent:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        sent.update(found)
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _end_groups(groups: Collection[int]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for group in groups:
            with contextlib.suppress(OSError):
                os.killpg(group, number)
        time.sleep(_POLL_SECONDS)
