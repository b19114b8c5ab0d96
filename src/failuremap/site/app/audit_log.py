"""What happened to accounts, in a table: who, when, from where; never a secret."""

from __future__ import annotations

import sqlite3
from typing import Literal

KEPT_OF_NOBODY = 50_000
"""Tries to sign in by a name that nobody has are forgotten so many lines later: strangers write those."""

Event = Literal[
    "invited", "joined", "signed in", "sign-in failed", "signed out", "signed out everywhere", "removed", "handed in",
    "passkey added",
]  # fmt: skip


def write(db: sqlite3.Connection, event: Event, member: str, address: str, now: int) -> None:
    """Adds one line.

    Args:
        db: The database; within the transaction of what happened, so that neither is there without the other.
        event: What happened.
        member: The member's name; "" where the name that was tried is nobody's.
        address: From where; "" for the command line.
        now: When.
    """
    db.execute("INSERT INTO audit_log (at, event, member, address) VALUES (?, ?, ?, ?)", (now, event, member, address))
    if not member:
        forget = "DELETE FROM audit_log WHERE member = '' AND id <= (SELECT max(id) FROM audit_log) - ?"
        db.execute(forget, (KEPT_OF_NOBODY,))


def last(db: sqlite3.Connection, count: int) -> list[tuple[int, str, str, str]]:
    """Returns the last lines, the newest first."""
    rows = db.execute("SELECT at, event, member, address FROM audit_log ORDER BY id DESC LIMIT ?", (count,))
    return [(row["at"], row["event"], row["member"], row["address"]) for row in rows]
