"""A cgroup for one box: memory and processes limited, processor time measured, for everything that runs in it.

Version 1 or 2, wherever this process may make one: a child of its own cgroup or of one above it. A caretaker removes
it: a shell in a session of its own that waits until the judge closes it or is gone, however the judge ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from failuremap.score.limits import Limits

PREFIX = "failuremap-"
_CARETAKER = """
read -r _
for folder; do
    tries=0
    while [ -d "$folder" ] && [ $tries -lt 200 ]; do
        kill -9 $(cat "$folder/cgroup.procs") 2>/dev/null
        rmdir "$folder" 2>/dev/null && break
        tries=$((tries + 1))
        sleep 0.02
    done
done
"""
_ENTER = 'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@"'
_CONTROLLERS = {"memory", "pids", "cpuacct"}
_BOX_PROCESSES = 1
"""A count below what runs already lets nothing more start."""


@dataclass(frozen=True)
class _Files:
    """The names of one version's files."""

    memory_limit: str
    swap_limit: str
    memory_peak: str
    kills: str
    cpu: tuple[str, str]
    """A file, and what in it holds processor time."""
    cpu_units_a_second: float


_VERSION_1 = _Files(
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.oom_control",
    ("cpuacct.usage", r"(\d+)"),
    1e9,
)
_VERSION_2 = _Files(
    "memory.max", "memory.swap.max", "memory.peak", "memory.events", ("cpu.stat", r"usage_usec (\d+)"), 1e6
)


class Cgroup:
    """A cgroup that exists from here until `close`."""

    def __init__(self, folders: dict[str, Path], files: _Files, limits: Limits) -> None:
        self.folders = sorted(set(folders.values()))
        self._of = folders
        self._files = files
        self._caretaker = subprocess.Popen(
            ["/bin/sh", "-c", _CARETAKER, "sh", *map(str, self.folders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
        )
        try:
            for folder in self.folders:
                folder.mkdir()
            (folders["memory"] / files.memory_limit).write_text(str(limits.memory_bytes), encoding="utf-8")
            with contextlib.suppress(OSError):  # where swap is accounted for
                swap = limits.memory_bytes if files is _VERSION_1 else 0
                (folders["memory"] / files.swap_limit).write_text(str(swap), encoding="utf-8")
        except BaseException:
            self.close()
            raise

    def entering(self, command: list[str]) -> list[str]:
        """Returns the command that runs another one inside."""
        return ["/bin/sh", "-c", _ENTER, "sh", *map(str, self.folders), "--", *command]

    def shut(self) -> None:
        """Lets no further process start inside."""
        (self._of["pids"] / "pids.max").write_text(str(_BOX_PROCESSES), encoding="utf-8")

    def cpu_s(self) -> float:
        """Processor time used inside so far."""
        name, pattern = self._files.cpu
        return self._number(self._of["cpuacct"] / name, pattern) / self._files.cpu_units_a_second

    def peak_bytes(self) -> int:
        """The most memory used inside at one time."""
        return self._number(self._of["memory"] / self._files.memory_peak, r"(\d+)")

    def was_out_of_memory(self) -> bool:
        """True where the kernel has ended a process inside for its memory."""
        return self._number(self._of["memory"] / self._files.kills, r"oom_kill (\d+)") > 0

    def close(self) -> None:
        """Removes it; nothing may run inside any more."""
        for folder in self.folders:
            with contextlib.suppress(OSError):  # something has only just ended; the caretaker tries again
                folder.rmdir()
        assert self._caretaker.stdin
        self._caretaker.stdin.close()
        self._caretaker.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _number(path: Path, pattern: str) -> int:
        """Returns a number in a file; 0 where this kernel has no such file."""
        try:
            found = re.search(pattern, path.read_text(encoding="utf-8"))
        except OSError:
            return 0
        return int(found[1]) if found else 0


def make(limits: Limits, *, proc: Path = Path("/proc/self")) -> Cgroup | None:
    """Returns a new cgroup for one box, or None where none can be made."""
    for parents, files in ((_parents_2(proc), _VERSION_2), (_parents_1(proc), _VERSION_1)):
        if parents and all(os.access(parent, os.W_OK) for parent in parents.values()):
            name = PREFIX + secrets.token_hex(8)
            with contextlib.suppress(OSError):
                return Cgroup({controller: parent / name for controller, parent in parents.items()}, files, limits)
    return None


def _parents_1(proc: Path) -> dict[str, Path]:
    """Returns this process's folder in the hierarchy of each controller, or {} where one is missing."""
    found: dict[str, Path] = {}
    for kind, options, folder in _hierarchies(proc):
        if kind == "cgroup":
            found.update(dict.fromkeys(_CONTROLLERS.intersection(options), folder))
    return found if found.keys() == _CONTROLLERS else {}


def _parents_2(proc: Path) -> dict[str, Path]:
    """Returns the nearest folder, from this process's own up, whose children can be limited and which may have more."""
    for kind, _, own in _hierarchies(proc):
        for folder in (own, *own.parents) if kind == "cgroup2" else ():
            try:
                controllers = (folder / "cgroup.subtree_control").read_text(encoding="utf-8").split()
            except OSError:
                break
            if {"memory", "pids"} <= set(controllers):
                return dict.fromkeys(_CONTROLLERS, folder)
    return {}


def _hierarchies(proc: Path) -> list[tuple[str, list[str], Path]]:
    """Returns type, options and this process's own folder of every mounted hierarchy."""
    try:
        owned = [line.split(":", 2) for line in (proc / "cgroup").read_text(encoding="utf-8").splitlines()]
        mounts = [line.split() for line in (proc / "mountinfo").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return []
    paths = {name: path for _, controllers, path in owned for name in controllers.split(",")}
    found = []
    for mount in mounts:
        root, at, (kind, _, options) = mount[3], mount[4], mount[mount.index("-") + 1 :][:3]
        names = options.split(",")
        path = paths.get("") if kind == "cgroup2" else next((paths[name] for name in names if name in paths), None)
        if kind.startswith("cgroup") and path is not None:
            found.append((kind, names, Path(at, path.removeprefix(root).lstrip("/"))))
    return found
