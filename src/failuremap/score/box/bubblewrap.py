"""box-2: bubblewrap, with nothing in it but the interpreter and its library, read-only."""

from __future__ import annotations

import shutil
import sys

from failuremap.score.box.interpreter import bound_files, bound_folders, library_folder, real_python
from failuremap.score.box.program import python_command
from failuremap.score.limits import Limits

NOBODY = "65534"


def find() -> str | None:
    """Returns the program's path, or None where it is not installed."""
    return shutil.which("bwrap") if sys.platform == "linux" else None


def command(bwrap: str, limits: Limits) -> list[str]:
    """Returns the command that starts the interpreter in a box."""
    binds = [part for path, at in bound_files() for part in ("--ro-bind", path, at)]
    for folder, hidden in bound_folders():
        binds += ["--ro-bind", folder, folder, *(part for each in hidden for part in ("--tmpfs", each))]
    return [
        *[bwrap, "--unshare-user", "--unshare-all", "--uid", NOBODY, "--gid", NOBODY, "--hostname", "box"],
        *["--die-with-parent", "--new-session", "--cap-drop", "ALL"],
        *["--size", str(limits.file_bytes), "--tmpfs", "/tmp"],  # noqa: S108 - the box's own
        *binds,
        *["--remount-ro", "/", "--chdir", "/tmp"],  # noqa: S108
        *(["--setenv", "LD_LIBRARY_PATH", libraries] if (libraries := library_folder()) else []),
        *["--", *python_command(real_python())],
    ]
