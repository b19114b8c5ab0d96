"""A box opens for an ordinary user as it does for root, or says in one sentence why it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import failuremap

USER = 61234
SOURCE = Path(failuremap.__file__).parent
# The box needs nothing that is installed: only our own files, without those that import more.
ALONE = """
import sys, types
for name in ("failuremap", "failuremap.score", "failuremap.score.selftest"):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [sys.argv[1] + "/" + name.replace(".", "/")]
import os
from failuremap.score.box import open_box, sound_level
from failuremap.score.limits import Limits
from failuremap.score.stopped import Stopped
"""
ANSWER = """
with open_box(b"def solve(rows): return sum(rows)", Limits()) as box:
    print(os.getuid(), box.level, box.call([1, 2]).value, sound_level())
"""
IMPRISONED = """
for source in sys.argv[2:]:
    try:
        with open_box(source.encode(), Limits()) as box:
            print(box.call(None).value)
    except Stopped as stopped:
        print(stopped.reason)
"""
ESCAPING = """
from failuremap.score.selftest.escapes import ESCAPES, attempt
attempts = [attempt(each, "box-2") for each in ESCAPES if each.name not in sys.argv[2:]]
print(len(attempts) > 90)
for each in attempts:
    if each.got_out:
        print(each.escape.name, each.got_out)
"""
NOWHERE = """
os.setgid(61234)
os.setuid(61234)
try:
    open_box(b"def solve(rows): return 1", Limits())
except Stopped as stopped:
    print(stopped.outcome, stopped.reason)
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[str]:
    """A folder that everybody can read, with the part of the package that a box needs."""
    if os.geteuid() != 0:
        pytest.skip("only root can become an ordinary user; as one, all other tests of the box show this")
    with tempfile.TemporaryDirectory(prefix="failuremap-box-") as path:
        shutil.copytree(SOURCE / "score", f"{path}/failuremap/score")
        shutil.copy(SOURCE / "errors.py", f"{path}/failuremap/errors.py")
        for each in (path, *map(str, Path(path).rglob("*"))):
            os.chmod(each, 0o755)
        yield path


def run_as_user(folder: str, code: str, *arguments: str) -> list[str]:
    """Runs code as an ordinary user, with a Python that one can read; returns the lines printed."""
    candidates = [os.path.realpath(sys.executable), "/usr/bin/python3"]
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    for python in candidates:
        try:
            subprocess.run([python, "-c", check], user=USER, group=USER, extra_groups=[], check=True, cwd="/")
        except (OSError, subprocess.CalledProcessError):
            continue
        done = subprocess.run(
            [python, "-B", "-c", ALONE + code, folder, *arguments],
            capture_output=True,
            text=True,
            user=USER,
            group=USER,
            extra_groups=[],
            cwd="/",
        )
        assert done.stderr == ""
        return done.stdout.splitlines()
    pytest.skip(f"no Python >= 3.11 here can be read by another user: {', '.join(candidates)}")


def test_an_ordinary_user_gets_a_sound_box(sound, folder):
    assert run_as_user(folder, ANSWER) == [f"{USER} box-2 3 box-2"]


def test_an_ordinary_users_candidate_is_kept_in(sound, folder):
    sources = [
        "def solve(rows): return open('/etc/passwd').read()",
        "import os\ndef solve(rows): return os.fork()",
        "import os\ndef solve(rows): return os.listdir('/')",
        "import os\ndef solve(rows): return os.kill(1, 9)",
    ]

    assert run_as_user(folder, IMPRISONED, *sources) == ["the candidate raised PermissionError"] * len(sources)


@pytest.mark.slow
def test_no_escape_works_for_an_ordinary_users_candidate(sound, folder):
    assert run_as_user(folder, ESCAPING, "run for ever", "run for ever in C", "print without end") == ["True"]


def test_an_interpreter_in_anothers_folder_is_told_in_one_sentence(sound, folder):
    if os.stat("/root").st_mode & 0o077 or not os.path.realpath(sys.executable).startswith("/root/"):
        pytest.skip("this Python can be read by every user")

    told = subprocess.run(
        [sys.executable, "-c", ALONE + NOWHERE, folder], capture_output=True, text=True, check=True
    ).stdout

    assert told.startswith("judge-error no box opens here that is sound enough (")
    assert f"cannot be read by uid={USER}; use a Python outside folders of another user's" in told
