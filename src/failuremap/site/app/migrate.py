"""Takes a database to the schema of this version, a step at a time; a copy is made before."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from failuremap.errors import InvalidArgument
from failuremap.site.app import schema
from failuremap.site.app.backup import copy_database
from failuremap.site.app.database import APPLICATION_ID, opened, transaction


def migrate(path: Path) -> Path | None:
    """Makes the database, or takes it to the newest schema. Returns the copy that was made before; None if none was.

    Raises:
        InvalidArgument: The file is not ours, or of a later version of failuremap.
    """
    with opened(path) as db:
        version = schema.version_of(db, path)
        missing = {number: sql for number, sql in schema.steps().items() if number > version}
        copy = path.with_name(f"{path.name}.before-{max(missing)}") if version and missing else None
        if copy:
            copy_database(path, copy)
        for number, sql in sorted(missing.items()):
            _take(db, number, sql)
    path.chmod(0o600)
    return copy


def check_schema(path: Path) -> None:
    """Refuses a database whose schema is not that of this version.

    Raises:
        InvalidArgument: It is not ours, or of another version of failuremap.
    """
    with opened(path) as db:
        version = schema.version_of(db, path)
    newest = max(schema.steps())
    if version != newest:
        raise InvalidArgument(
            f"database={str(path)!r} has schema version {version}, and this failuremap works with {newest}; "
            "`failuremap serve` takes it there."
        )


def _take(db: sqlite3.Connection, number: int, sql: str) -> None:
    """Takes one step, whole or not at all."""
    with transaction(db):
        for statement in _statements(sql):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {number}")


def _statements(sql: str) -> list[str]:
    """Cuts a script into its statements: `executescript` would commit between them."""
    found, start = [], 0
    for end in (match.end() for match in re.finditer(";", sql)):
        if sqlite3.complete_statement(sql[start:end]):
            found.append(sql[start:end])
            start = end
    return found
