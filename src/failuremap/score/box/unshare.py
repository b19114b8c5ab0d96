"""box-1: namespaces by util-linux, where bubblewrap is absent; the files of this machine can be read."""

from __future__ import annotations

import shutil
import sys

from failuremap.score.box.interpreter import real_python
from failuremap.score.box.program import python_command

_PROGRAMS = "unshare", "setpriv"
_NAMESPACES = "--user --map-root-user --net --ipc --uts --cgroup --pid --mount --mount-proc --fork --kill-child".split()
# To the first process of a namespace the limit of processor time sends no signal: that is the shell.
_FIRST = ["/bin/sh", "-c", '"$@"; exit $?', "sh"]
_PRIVILEGES = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]


def missing() -> str | None:
    """Returns what this machine lacks, or None."""
    if sys.platform != "linux":
        return "it needs Linux"
    absent = [name for name in _PROGRAMS if not shutil.which(name)]
    return f"{absent[0]} is absent; it comes with util-linux" if absent else None


def command() -> list[str]:
    """Returns the command that starts the interpreter in namespaces of its own."""
    unshare, setpriv = (shutil.which(name) or name for name in _PROGRAMS)
    return [unshare, *_NAMESPACES, setpriv, *_PRIVILEGES, "--", *_FIRST, *python_command(real_python())]
