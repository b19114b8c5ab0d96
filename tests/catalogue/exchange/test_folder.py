"""A folder is written whole or not at all, and nothing that somebody else put there is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from failuremap.catalogue.exchange.archive import SUMS, sums_text
from failuremap.catalogue.exchange.folder import write_file, write_folder
from failuremap.errors import InvalidArgument


def summed(**files: str) -> dict[str, bytes]:
    content = {name.replace("_", "/"): text.encode() for name, text in files.items()}
    return {**content, SUMS: sums_text(content, "failuremap test").encode()}


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != SUMS
    }


def test_a_new_folder_is_written(tmp_path):
    write_folder(tmp_path / "out", summed(a="1", inner_b="2"))

    assert contents(tmp_path / "out") == {"a": "1", "inner/b": "2"}
    assert os.listdir(tmp_path) == ["out"]


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "out").mkdir()

    write_folder(tmp_path / "out", summed(a="1"))

    assert contents(tmp_path / "out") == {"a": "1"}


def test_what_was_written_before_is_replaced(tmp_path):
    write_folder(tmp_path / "out", summed(a="1", inner_b="2"))

    write_folder(tmp_path / "out", summed(c="3"))

    assert contents(tmp_path / "out") == {"c": "3"}
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("failing", ["write_bytes", "rename"])
def test_a_half_written_folder_never_replaces_a_good_one(tmp_path, monkeypatch, failing):
    write_folder(tmp_path / "out", summed(a="1"))
    right = getattr(Path, failing)
    calls = []

    def fail_on_the_second(self, *args):
        calls.append(self)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return right(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Path, failing, fail_on_the_second)
        with pytest.raises(InvalidArgument, match=r"^--out '.*/out' can't be written: No space left on device\.$"):
            write_folder(tmp_path / "out", summed(a="2", b="3"))

    assert contents(tmp_path / "out") == {"a": "1"}
    assert os.listdir(tmp_path) == ["out"]


def planted(out: Path, kind: str) -> None:
    """Leave something in a folder that no export wrote."""
    if kind == "other files":
        out.mkdir()
        (out / "thesis.txt").write_text("years of work")
        return
    write_folder(out, summed(a="1"))
    if kind == "a file more":
        (out / "thesis.txt").write_text("years of work")
    elif kind == "a file changed":
        (out / "a").write_text("2")
    elif kind == "a file less":
        (out / "a").unlink()
    elif kind == "a link":
        (out / "link").symlink_to("/etc")
    elif kind == "a pipe":
        os.mkfifo(out / "pipe")
    elif kind == "an empty folder":
        (out / "inner").mkdir()
    elif kind == "sums of others":
        (out / SUMS).write_text("0" * 64 + "  a\n")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("other files", "holds other files, such as 'thesis.txt'."),
        ("sums of others", "holds other files, such as 'SHA256SUMS'."),
        ("a file more", "holds an earlier output that was changed: member='thesis.txt' is not listed in SHA256SUMS."),
        ("a file changed", "holds an earlier output that was changed: member='a' has sha256="),
        ("a file less", "holds an earlier output that was changed: member='a' is listed in SHA256SUMS, but missing."),
        ("a link", "holds a link, 'link'."),
        ("a pipe", "holds what is no file, 'pipe'."),
        ("an empty folder", "holds an empty folder, 'inner'."),
    ],
)
def test_other_content_is_refused_and_stays(tmp_path, kind, message):
    planted(tmp_path / "out", kind)
    before = contents(tmp_path / "out")

    with pytest.raises(InvalidArgument) as refused:
        write_folder(tmp_path / "out", summed(b="2"))

    assert str(refused.value).startswith(f"--out '{tmp_path}/out' {message}")
    assert str(refused.value).endswith(" Nothing was written; name a new folder, or empty this one.")
    assert contents(tmp_path / "out") == before


def test_a_file_or_a_link_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")

    for name in ("file", "link"):
        with pytest.raises(InvalidArgument, match=rf"^--out '.*/{name}' is no folder; name a new one, or one that"):
            write_folder(tmp_path / name, summed(a="1"))


def test_a_folder_of_others_is_not_walked(tmp_path, monkeypatch):
    planted(tmp_path / "out", "other files")
    monkeypatch.setattr(Path, "rglob", lambda *_: pytest.fail("a home directory may hold millions of files"))

    with pytest.raises(InvalidArgument, match=r"holds other files, such as 'thesis.txt'\."):
        write_folder(tmp_path / "out", summed(a="1"))


@pytest.mark.parametrize("name", [".", "..", "/", ""])
def test_a_folder_that_can_not_be_replaced_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidArgument, match=r"^--out '(\.|\.\.|/)' can't be replaced; name a folder in it\.$"):
        write_folder(Path(name), summed(a="1"))

    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_place_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match=r"^--out '.*/a/b': there is no folder '.*/a'; make it first\.$"):
        write_folder(tmp_path / "a" / "b", summed(a="1"))


def test_a_place_that_may_not_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.mkdtemp", lambda **_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))

    with pytest.raises(InvalidArgument, match=r"^--out '.*/out' can't be written: Permission denied\.$"):
        write_folder(tmp_path / "out", summed(a="1"))


def test_a_single_file_is_replaced_whole(tmp_path, monkeypatch):
    write_file(tmp_path / "a.json", "1")
    write_file(tmp_path / "a.json", "2")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(InvalidArgument, match=r"a.json' can't be written: No space left on device\.$"):
            write_file(tmp_path / "a.json", "3")

    assert contents(tmp_path) == {"a.json": "2"}
