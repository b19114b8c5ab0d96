"""Files -> a folder that is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from failuremap.catalogue.exchange.archive import SUMS, check_sums
from failuremap.errors import InvalidArgument, RecordError

MARK = "# failuremap "
"""How the SHA256SUMS of a folder begins that may be replaced."""


def write_folder(folder: Path, files: Mapping[str, bytes], option: str = "--out") -> None:
    """Writes files, their SHA256SUMS among them, as a folder: beside it first, and then in its place, at once.

    A folder that an earlier call wrote, and that nobody has changed since, is replaced; any other content is refused.

    Args:
        folder: Where.
        files: Path in the folder -> content.
        option: By what the folder was given; an error begins with it.

    Raises:
        InvalidArgument: The folder holds something else, or may not be written.
    """
    check_folder(folder, option)
    with _unwritable_named(folder, option):
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
        try:
            for name, content in files.items():
                path = beside / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            beside.chmod(0o755)
            _put_in_place(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def _put_in_place(beside: Path, folder: Path) -> None:
    """Renames a whole folder into its place; what was there goes only when the new one is there."""
    if not folder.exists():
        beside.rename(folder)
        return
    old = beside.with_suffix(".old")
    folder.rename(old)
    try:
        beside.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def check_folder(folder: Path, option: str = "--out") -> None:
    """Refuses a folder that may not be replaced, before anything has been made for it.

    Raises:
        InvalidArgument: It holds something else, is no folder, or has no place to stand in.
    """
    with _unwritable_named(folder, option):
        if folder.name in {"", ".."}:
            raise InvalidArgument(f"{option} {str(folder)!r} can't be replaced; name a folder in it.")
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise InvalidArgument(
                f"{option} {str(folder)!r} is no folder; name a new one, or one that this command wrote."
            )
        if not folder.parent.is_dir():
            raise InvalidArgument(
                f"{option} {str(folder)!r}: there is no folder {str(folder.parent)!r}; make it first."
            )
        stranger = _stranger_in(folder) if folder.exists() else ""
        if stranger:
            raise InvalidArgument(
                f"{option} {str(folder)!r} holds {stranger}. Nothing was written; name a new folder, or empty this one."
            )


def _stranger_in(folder: Path) -> str:
    """Names what `write_folder` did not write; "" where the folder is empty, or is as it was written."""
    names = sorted(path.name for path in folder.iterdir())
    if not names or not _is_marked(folder / SUMS):  # a folder of others may be large: it isn't walked
        return f"other files, such as {names[0]!r}" if names else ""
    paths = sorted(folder.rglob("*"))
    files = {path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}
    for path in paths:
        if path.is_symlink() or not (path.is_file() or (path.is_dir() and any(path.iterdir()))):
            return f"{_kind_of(path)}, {path.name!r}"
    try:
        check_sums({name: path.read_bytes() for name, path in files.items()}, str(folder))
    except RecordError as error:
        return f"an earlier output that was changed: {str(error).partition(': ')[2].rstrip('.')}"
    return ""


def _is_marked(sums: Path) -> bool:
    if sums.is_symlink() or not sums.is_file():
        return False
    with open(sums, "rb") as file:
        return file.read(len(MARK)) == MARK.encode()


def _kind_of(path: Path) -> str:
    if path.is_symlink():
        return "a link"
    return "an empty folder" if path.is_dir() else "what is no file"


def make_folder(folder: Path) -> None:
    """Makes a folder, if it is not there.

    Raises:
        InvalidArgument: It can't be made.
    """
    with _unwritable_named(folder):
        folder.mkdir(exist_ok=True)


def write_file(path: Path, content: str) -> None:
    """Writes a file beside its place first, and then in it, at once.

    Raises:
        InvalidArgument: It may not be written.
    """
    with _unwritable_named(path):
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(content)
            Path(beside).chmod(0o644)
            Path(beside).replace(path)
        finally:
            Path(beside).unlink(missing_ok=True)


@contextmanager
def _unwritable_named(path: Path, option: str = "--out") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidArgument(f"{option} {str(path)!r} can't be written: {error.strerror}.") from error
