"""What the tests of the launcher share: small scripts, jobs of them, and a look at which processes live."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from pathlib import Path

from failuremap.audit.launch import Job

SOURCE = Path(__file__).parents[2] / "src"


def write_script(folder: Path, source: str, name: str = "train.py") -> Path:
    """Write a script, its indentation removed."""
    script = folder / name
    script.write_text(textwrap.dedent(source))
    return script


def make_job(folder: Path, source: str, nproc: int | None = None, timeout: float | None = None) -> Job:
    """Make a job of a script that needs no torch: Python is named, so it is started like any program."""
    script = write_script(folder, source)
    return Job((sys.executable, str(script)), nproc, timeout, folder / "trace", "run0")


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pids: list[int], seconds: float = 10.0) -> bool:
    """Wait for the end of processes that nobody waits for; False if one lives on."""
    deadline = time.monotonic() + seconds
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(map(is_alive, pids))


def wait_for(path: Path, seconds: float = 20.0) -> str:
    """Wait until a file has content, and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.01)
    raise AssertionError(f"{path} was never written")


def clean_environment(**more: str) -> dict[str, str]:
    """Return an environment in which failuremap is found and no launcher is at work."""
    launchers = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    kept = {name: value for name, value in os.environ.items() if name not in launchers}
    return {**kept, "PYTHONPATH": str(SOURCE), **more}
