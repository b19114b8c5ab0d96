"""The schema of the database: its steps, and how far a file has come."""

from __future__ import annotations

import re
import sqlite3
from importlib import resources
from pathlib import Path

from failuremap.errors import InvalidArgument
from failuremap.site.app.database import APPLICATION_ID


def steps() -> dict[int, str]:
    """Returns the steps of the schema: version -> SQL."""
    folder = resources.files("failuremap.site.app.migrations")
    names = {name: re.fullmatch(r"(\d{4})_\w+\.sql", name) for name in sorted(file.name for file in folder.iterdir())}
    return {int(found[1]): (folder / name).read_text(encoding="utf-8") for name, found in names.items() if found}


def version_of(db: sqlite3.Connection, path: Path) -> int:
    """Returns the version of a database's schema, 0 for an empty one.

    Raises:
        InvalidArgument: It is not ours, or of a later version of failuremap.
    """
    try:
        (mark,), (version,) = (
            db.execute("PRAGMA application_id").fetchone(),
            db.execute("PRAGMA user_version").fetchone(),
        )
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.DatabaseError as error:
        raise InvalidArgument(f"database={str(path)!r} is no database of failuremap: {error}.") from error
    if mark != APPLICATION_ID and tables:
        raise InvalidArgument(f"database={str(path)!r} is a database of another program; name another file.")
    newest = max(steps())
    if version > newest:
        raise InvalidArgument(
            f"database={str(path)!r} has schema version {version}, and this failuremap knows {newest}; "
            "use the failuremap that wrote it, or a later one."
        )
    return int(version)
