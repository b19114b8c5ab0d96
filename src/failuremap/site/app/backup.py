"""The database as one file: taken while the site is running, and put back while it is not."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from failuremap.errors import InvalidArgument
from failuremap.site.app.database import APPLICATION_ID
from failuremap.site.app.locking import sole_user
from failuremap.site.app.schema import version_of

_COMPANIONS = ("-wal", "-shm")


def copy_database(source: Path, target: Path) -> None:
    """Writes a whole copy of a database, also of one in use; the target is there whole or not.

    Raises:
        InvalidArgument: There is no such database, or the copy can't be written.
    """
    if not source.is_file():
        raise InvalidArgument(f"database={str(source)!r}: there is no such file; nothing was copied.")
    if target.exists() and target.samefile(source):
        raise InvalidArgument(f"{str(target)!r} is the database itself; name another file. Nothing was copied.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        beside = Path(name)
        try:
            _copied(source, beside)
            _synced(beside)
            beside.replace(target)
            _synced(target.parent)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, sqlite3.Error) as error:
        raise InvalidArgument(f"{str(source)!r} can't be copied to {str(target)!r}: {error}.") from error


def _copied(source: Path, target: Path) -> None:
    """Copies page by page, as SQLite has it, into a file without companions."""
    address = f"{source.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as reading, closing(sqlite3.connect(target)) as writing:
        reading.backup(writing)
        writing.execute("PRAGMA journal_mode = DELETE")


def restore(backup: Path, database: Path) -> None:
    """Puts a backup in the place of the database, at once; a site that is running is refused.

    Raises:
        InvalidArgument: The file is no backup of ours, is damaged, or the database is in use.
    """
    check_backup(backup)
    with sole_user(database):
        database = database.resolve()
        _close_journal(database)
        copy_database(backup, database)


def _close_journal(database: Path) -> None:
    """Leaves the old database whole in its one file: a journal of it beside the new one would be played into that."""
    if database.exists():
        with suppress(sqlite3.Error), closing(sqlite3.connect(database)) as db:
            db.execute("PRAGMA journal_mode = DELETE")
    for ending in _COMPANIONS:  # where the old one is damaged
        database.with_name(database.name + ending).unlink(missing_ok=True)


def check_backup(path: Path) -> None:
    """Refuses a file that is no whole database of ours.

    Raises:
        InvalidArgument: Says what it is instead.
    """
    if not path.is_file():
        raise InvalidArgument(f"backup={str(path)!r}: there is no such file; nothing was restored.")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            mark = db.execute("PRAGMA application_id").fetchone()[0]
            version = version_of(db, path) if mark == APPLICATION_ID else 0
            damage = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        raise InvalidArgument(f"backup={str(path)!r} is no database: {error}; nothing was restored.") from error
    if mark != APPLICATION_ID or not version:
        raise InvalidArgument(f"backup={str(path)!r} is no backup of failuremap; nothing was restored.")
    if damage != "ok":
        raise InvalidArgument(f"backup={str(path)!r} is damaged: {damage}; nothing was restored.")


def _synced(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
