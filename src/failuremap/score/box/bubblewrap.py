"""box-2 and box-3: bubblewrap, with nothing in it but the interpreter and its library, read-only.

There is no /proc and no /dev; the one folder that can be written is a tmpfs of its own.
"""

from __future__ import annotations

import shutil
import sys

from failuremap.score.box import interpreter
from failuremap.score.box.program import python_command
from failuremap.score.limits import Limits

NOBODY = "65534"
_FOLDER = "/tmp"  # noqa: S108 - the box's own


def missing() -> str | None:
    """Returns what this machine lacks, or None."""
    if sys.platform != "linux":
        return "bubblewrap needs Linux"
    return None if shutil.which("bwrap") else "bubblewrap is absent; install it: apt install bubblewrap"


def command(limits: Limits, filter_fd: int) -> list[str]:
    """Returns the command that starts the interpreter in a box.

    Args:
        limits: How much the box's folder holds.
        filter_fd: An open file that holds the filter of system calls.
    """
    binds = [part for path, at in interpreter.bound_files() for part in ("--ro-bind", path, at)]
    for folder, hidden in interpreter.bound_folders():
        binds += ["--ro-bind", folder, folder, *(part for each in hidden for part in ("--tmpfs", each))]
    libraries = interpreter.library_folder()
    return [
        *[
            shutil.which("bwrap") or "bwrap",
            "--unshare-user",
            "--unshare-all",
            "--uid",
            NOBODY,
            "--gid",
            NOBODY,
            "--hostname",
            "box",
        ],
        *["--die-with-parent", "--new-session", "--cap-drop", "ALL"],
        *["--size", str(limits.file_bytes), "--tmpfs", _FOLDER, *binds, "--remount-ro", "/", "--chdir", _FOLDER],
        *(["--setenv", "LD_LIBRARY_PATH", libraries] if libraries else []),
        *["--seccomp", str(filter_fd), "--", *python_command(interpreter.real_python())],
    ]
