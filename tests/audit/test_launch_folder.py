"""A trace folder belongs to one run, and a temporary one is gone afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from failuremap.audit.launch.folder import choose_folder
from failuremap.errors import InvalidArgument


def test_a_temporary_folder_is_private_and_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with choose_folder(None, "abc").claimed("abc") as path:
        mode = path.stat().st_mode & 0o777

    assert (path, mode, path.exists()) == (tmp_path / "failuremap-abc", 0o700, False)


def test_a_temporary_folder_is_removed_after_an_interrupt_too(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with pytest.raises(KeyboardInterrupt), choose_folder(None, "abc").claimed("abc"):
        raise KeyboardInterrupt

    assert list(tmp_path.iterdir()) == []


def test_after_a_fault_of_our_own_the_trace_is_kept_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with pytest.raises(ZeroDivisionError) as raised, choose_folder(None, "abc").claimed("abc"):
        raise ZeroDivisionError

    assert raised.value.__notes__ == [f"The trace is kept:  failuremap diagnose {tmp_path}/failuremap-abc"]
    assert (tmp_path / "failuremap-abc").exists()


def test_a_folder_that_the_user_named_stays(tmp_path):
    with choose_folder(str(tmp_path / "a/b"), "abc").claimed("abc") as path:
        (path / "rank0.trace").touch()

    assert (tmp_path / "a/b/rank0.trace").exists()


def test_the_ranks_of_one_run_share_a_folder(tmp_path):
    with choose_folder(str(tmp_path), "abc").claimed("abc") as path:
        (path / "rank0.trace").touch()
        with choose_folder(str(tmp_path), "abc").claimed("abc") as again:
            assert again == path


@pytest.mark.parametrize("name", ["run-old.claim", "rank0.trace", "rank3.exit"])
def test_another_runs_trace_is_refused(tmp_path, name):
    (tmp_path / name).touch()

    with pytest.raises(InvalidArgument) as raised, choose_folder(str(tmp_path), "new").claimed("new"):
        pass

    assert str(raised.value) == (
        f"--trace={str(tmp_path)!r} holds another run's trace ({name!r}): a folder holds one run. "
        "Name a new folder, or remove that trace."
    )
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_folder_with_other_files_is_fine(tmp_path):
    (tmp_path / "train.log").touch()

    with choose_folder(str(tmp_path), "abc").claimed("abc") as path:
        assert path == tmp_path


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(InvalidArgument) as raised, choose_folder(str(tmp_path / "file/trace"), "abc").claimed("abc"):
        pass

    assert str(raised.value) == (
        f"--trace={str(tmp_path / 'file/trace')!r} can't be written: Not a directory. "
        "Name a folder that you can write to."
    )


def test_a_run_that_could_not_start_leaves_no_folder(tmp_path):
    with pytest.raises(InvalidArgument), choose_folder(str(tmp_path / "trace"), "abc").claimed("abc"):
        raise InvalidArgument("command='x' can't be started")

    assert list(tmp_path.iterdir()) == []


def test_a_relative_folder_is_the_same_after_a_change_of_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    assert choose_folder("trace", "abc").path == Path(tmp_path / "trace")
