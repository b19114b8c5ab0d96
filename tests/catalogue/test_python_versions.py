"""What is recorded holds on other versions of Python: the scripts are run in turn under those that are found here.

Looked for are python3.11 to python3.19 on PATH, and beside the running version, where a version manager keeps them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from failuremap.catalogue import render
from failuremap.catalogue.recording import Recording, difference, read_recordings
from failuremap.catalogue.run import run
from failuremap.catalogue.verify import Job, jobs_of

NAMES = [f"python3.{minor}" for minor in range(11, 20)]


def candidates() -> Iterator[Path]:
    """Yield the interpreters that may be found here, those of the running version too."""
    for name in NAMES:
        if found := shutil.which(name):
            yield Path(found)
        yield from Path(sys.base_prefix).parent.glob(f"*/bin/{name}")


def version_of(python: Path) -> str:
    """Return the version that an interpreter says it has; "" where it doesn't start."""
    command = [python, "-I", "-S", "-c", "import platform; print(platform.python_version())"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def others() -> dict[str, str]:
    """Return the other minor versions that are found here: one interpreter of each, by its full version."""
    own = ".".join(map(str, sys.version_info[:2]))
    by_minor = {}
    for python in candidates():
        version = version_of(python)
        if version and version.rpartition(".")[0] != own:
            by_minor.setdefault(version.rpartition(".")[0], (version, str(python)))
    return dict(by_minor.values())


OTHERS = others()
WITHOUT = pytest.param("", marks=pytest.mark.skip(reason=f"none of {', '.join(NAMES)} is on PATH or beside this one"))


@pytest.mark.slow
@pytest.mark.parametrize("version", OTHERS or [WITHOUT])
def test_scripts_give_there_what_is_recorded(version):
    own = list(jobs_of())[list(OTHERS).index(version) :: len(OTHERS)]

    def problem(job: Job) -> str:
        script = render(job.entry, job.stage, job.variant)
        seen = run(script, python=OTHERS[version])
        if seen.exit_code is None:
            return f"{job.entry.slug} {job.stage} N={job.variant}: {seen.stopped}"
        recorded = read_recordings(job.entry.slug).get((job.stage, job.variant))
        found = difference(job.entry.slug, recorded, Recording.of(script, seen))
        return found and f"{job.entry.slug} {job.stage} N={job.variant}: {found}"

    with ThreadPoolExecutor(2) as pool:
        problems = [found for found in pool.map(problem, own) if found]

    assert problems == [], f"under Python {version}"


@pytest.mark.parametrize("version", OTHERS or [WITHOUT])
def test_the_guard_holds_there(version):
    python = OTHERS[version]

    assert run("print(1)", python=python).stdout == "1\n"
    assert run("open('x', 'w')", python=python).stopped == "the script writes to the disk: open('x')"
    assert run("import os; os.fork()", python=python).stopped == "the script starts or signals a process: os.fork()"
    assert run("1 / 0", python=python).stderr.splitlines()[1] == '  File "script.py", line 1, in <module>'


def test_negative_control_versions_differ_in_something():
    """A float sum is rounded otherwise since 3.12: the comparison above would notice."""
    source = "print(sum([0.1] * 10))"

    printed = {version: run(source, python=python).stdout for version, python in OTHERS.items()}

    wanted = {version: "1.0\n" if int(version.split(".")[1]) >= 12 else "0.9999999999999999\n" for version in OTHERS}
    assert printed == wanted
