"""What cannot be started is refused before anything is, in one sentence."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from failuremap.audit.launch import Job
from failuremap.errors import InvalidArgument, MissingDependency


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Stand in an empty folder in which torch can be found, whether or not it is installed."""
    (tmp_path / "lib/torch").mkdir(parents=True)
    (tmp_path / "lib/torch/__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "lib")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def job(*argv, nproc=None, timeout=None, steps=None):
    return Job(argv, nproc, timeout, Path("trace"), "run0", steps)


def message(error=InvalidArgument, *argv, **options):
    with pytest.raises(error) as raised:
        job(*argv, **options)
    return str(raised.value)


def test_a_script_runs_with_this_python(folder):
    (folder / "train.py").touch()

    assert job("train.py", "--lr", "3").command == [sys.executable, "train.py", "--lr", "3"]


def test_a_module_runs_with_this_python():
    assert job("-m", "package.train", "-v").command == [sys.executable, "-m", "package.train", "-v"]


def test_a_program_runs_as_it_is(folder):
    launcher = folder / "launcher"
    launcher.write_text("#!/bin/sh\n")
    launcher.chmod(0o755)

    assert job("./launcher", "train.py").command == ["./launcher", "train.py"]


def test_no_command_is_refused():
    expected = "no command to audit: name the script after --, as in  failuremap audit -- train.py --epochs 1"

    assert message() == expected


def test_a_script_that_is_not_there_is_refused(folder):
    assert message(InvalidArgument, "nope.py") == (
        f"script='nope.py' doesn't exist (looked in {str(folder)!r}): check the path."
    )


@pytest.mark.parametrize("name", ["model", "model.py"])
def test_a_folder_is_refused(folder, name):
    (folder / name).mkdir()

    assert message(InvalidArgument, name) == (
        f"script={name!r} is a folder: name the Python file to run, as in  failuremap audit -- train.py --epochs 1"
    )


def test_a_program_that_is_not_there_is_refused(folder):
    expected = f"command='trian' doesn't exist, here ({str(folder)!r}) or on PATH: check the name."

    assert message(InvalidArgument, "trian") == expected


def test_a_file_that_is_no_program_is_refused(folder):
    (folder / "train.txt").touch()

    assert message(InvalidArgument, "./train.txt") == (
        "command='./train.txt' is neither a .py file nor executable: name a script or a program."
    )


def test_m_without_a_module_is_refused():
    expected = "-m without a module: name it, as in  failuremap audit -- -m package.train --epochs 1"

    assert message(InvalidArgument, "-m") == expected


@pytest.mark.parametrize("nproc", [0, -3])
def test_less_than_one_rank_is_refused(nproc):
    expected = f"--nproc={nproc}: 1 rank or more; leave it out to start the script once."

    assert message(InvalidArgument, "-m", "train", nproc=nproc) == expected


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan")])
def test_a_timeout_that_is_no_time_is_refused(timeout):
    expected = f"--timeout={timeout:g}: seconds, above 0; leave it out for no limit."

    assert message(InvalidArgument, "-m", "train", timeout=timeout) == expected


def test_less_than_one_step_is_refused():
    expected = "--steps=0: 1 optimizer step or more; leave it out to see all of them."

    assert message(InvalidArgument, "-m", "train", steps=0) == expected


def test_several_launchers_are_refused():
    expected = "--nproc=2 with 'torchrun': a launcher starts its own ranks; leave --nproc out."

    assert message(InvalidArgument, "torchrun", "train.py", nproc=2) == expected


def test_a_python_without_torch_and_jax_is_told_what_to_install(folder, monkeypatch):
    (folder / "train.py").touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    expected = "auditing a job needs torch (or jax). Install it with:  pip install 'failuremap[torch]'"
    assert message(MissingDependency, "train.py") == expected


def test_looking_for_torch_does_not_import_it():
    loaded = sys.modules.get("torch")

    job("-m", "train")

    assert sys.modules.get("torch") is loaded


def test_every_process_is_told_where_to_write_and_for_which_run(folder):
    first, second = job("-m", "train", nproc=2, steps=4).environments("marker")

    names = ("FAILUREMAP_TRACE_DIR", "FAILUREMAP_RUN_ID", "FAILUREMAP_STEPS", "FAILUREMAP_SUPERVISOR")
    assert [first[name] for name in names] == [str(folder / "trace"), "run0", "4", "marker"]
    assert [second[name] for name in names] == [first[name] for name in names]
