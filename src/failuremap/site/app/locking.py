"""One process at a time: a lock on a file beside the database, which ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from failuremap.errors import InvalidArgument

_LOOK_AGAIN_S = 0.05


@contextmanager
def locked(path: Path, wait_s: float = 0.0) -> Iterator[bool]:
    """Holds the lock of a file for the time of a block; yields whether it was free within the time."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _taken(handle, time.monotonic() + wait_s)
    finally:
        os.close(handle)


def _taken(handle: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_AGAIN_S)
        else:
            return True


@contextmanager
def sole_user(database: Path) -> Iterator[None]:
    """Makes this process the one that serves a database, for the time of a block.

    Raises:
        InvalidArgument: Another process serves it.
    """
    path = database.resolve()  # by whichever link it is named, it is one database
    if not path.parent.is_dir():
        raise InvalidArgument(
            f"database={str(database)!r}: there is no folder {str(database.parent)!r}; make it first."
        )
    if path.is_dir():
        raise InvalidArgument(f"database={str(database)!r} is a folder; name a file in it, such as site.sqlite3.")
    with ExitStack() as held:
        try:
            free = held.enter_context(locked(path.with_name(f"{path.name}.serving")))
        except OSError as error:
            raise InvalidArgument(
                f"database={str(database)!r}: its folder can't be written: {error.strerror}; name a file in another."
            ) from error
        if not free:
            raise InvalidArgument(
                f"database={str(database)!r} is being served by another process; stop that one first."
            )
        yield
