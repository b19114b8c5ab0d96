"""A connection to the database, and transactions on it: what has been committed is on the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from failuremap.errors import InvalidArgument

APPLICATION_ID = 0x464D4442  # "FMDB": by this a file is known as ours
_BUSY_TIMEOUT_S = 10.0


def connect(path: Path) -> sqlite3.Connection:
    """Opens the database, with every commit written through to the disk before it is acknowledged."""
    try:
        db = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error as error:
        raise InvalidArgument(
            f"database={str(path)!r} can't be opened: {error}; expected a file that `failuremap serve` made, "
            "or a name in a folder that may be written."
        ) from error
    return db


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Opens the database for the time of a block."""
    db = connect(path)
    try:
        yield db
    finally:
        db.close()


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commits what a block wrote, whole or not at all; no other writer comes between its reads and its writes."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
