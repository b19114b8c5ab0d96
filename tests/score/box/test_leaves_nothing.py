"""Whatever ends the judge, no process, no folder and no cgroup of a box is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from failuremap.score.box import cgroup, open_box
from failuremap.score.limits import Limits

JUDGE = """
import sys
from failuremap.score.box import open_box
from failuremap.score.limits import Limits
with open_box(b"def solve(rows):\\n    while True: pass", Limits(cpu_s=60), level=sys.argv[1]) as box:
    print(box.pid, *(box._group.folders if box._group else ()), flush=True)
    box.call(None)
"""
PATIENCE_S = 30.0


def wait_until(fact: Callable[[], bool]) -> bool:
    """Waits for a fact to hold, for as long as a busy machine could need."""
    deadline = time.monotonic() + PATIENCE_S
    while not (held := fact()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.parametrize(
    ("level", "ending"),
    [
        ("sound", signal.SIGINT),
        ("sound", signal.SIGTERM),
        ("sound", signal.SIGKILL),
        ("box-2", signal.SIGKILL),
        ("none", signal.SIGKILL),
    ],
)
def test_nothing_is_left_of_a_judge_that_is_ended(sound, level, ending):
    judge = subprocess.Popen(
        [sys.executable, "-c", JUDGE, sound if level == "sound" else level],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with judge:
        pid, *folders = judge.stdout.readline().split()

        judge.send_signal(ending)
        judge.wait()

    assert wait_until(lambda: is_gone(int(pid)))
    assert wait_until(lambda: not any(Path(folder).exists() for folder in folders))


@pytest.mark.parametrize("level", ["sound", "box-2", "none"])
def test_nothing_is_left_of_a_box_that_is_closed(sound, level, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with open_box(b"def solve(rows): return rows", Limits(), level=sound if level == "sound" else level) as box:
        box.call(1)
        folders = box._group.folders if box._group else []

    assert is_gone(box.pid)
    assert not any(folder.exists() for folder in folders)
    assert list(tmp_path.iterdir()) == []


def test_a_box_that_could_not_load_its_candidate_leaves_no_open_file(sound):
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = open_files()

    for source in (b"x = (", b"1 / 0", b"import os; os._exit(1)", b"\xff"):
        with pytest.raises(Exception, match="the candidate"):
            open_box(source, Limits(), level=sound)

    assert open_files() == before


def test_an_exception_of_the_judge_closes_the_box(sound):
    with (
        pytest.raises(RuntimeError, match="the judge's"),
        open_box(b"def solve(rows): return rows", Limits(), level=sound) as box,
    ):
        raise RuntimeError("the judge's")

    assert is_gone(box.pid)


def test_a_box_can_be_closed_twice(sound):
    box = open_box(b"def solve(rows): return rows", Limits(), level=sound)
    box.close()
    box.close()

    assert is_gone(box.pid)


def test_the_caretaker_is_a_program_of_the_shell():
    assert subprocess.run(["/bin/sh", "-n", "-c", cgroup._CARETAKER]).returncode == 0
