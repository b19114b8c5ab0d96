"""Invitations: a secret that lets one person in, once, until it expires."""

from __future__ import annotations

import sqlite3

from failuremap.site.app.database import transaction
from failuremap.site.app.members import check_name, find, folded, take_in
from failuremap.site.app.secrets_ import digest_of, new_secret


def invite(db: sqlite3.Connection, name: str, days: float, now: int) -> str:
    """Makes an invitation and returns its secret; an older one for the same name is void.

    An invitation for somebody who is a member already lets them set another password.

    Raises:
        InvalidArgument: The name is none.
    """
    name = check_name(name)
    secret = new_secret()
    with transaction(db):
        member = find(db, name)
        name = member.name if member else name
        for row in db.execute("SELECT digest, name FROM invitations WHERE used IS NULL").fetchall():
            if folded(row["name"]) == folded(name):
                db.execute("DELETE FROM invitations WHERE digest = ?", (row["digest"],))
        row = (digest_of(secret), name, now, now + round(days * 24 * 3600))
        db.execute("INSERT INTO invitations (digest, name, made, expires) VALUES (?, ?, ?, ?)", row)
    return secret


def invited(db: sqlite3.Connection, secret: str, now: int) -> str | None:
    """Returns the name that an invitation is for; None where it is unknown, used or expired: which, is not told."""
    row = db.execute(
        "SELECT name FROM invitations WHERE digest = ? AND used IS NULL AND expires > ?", (digest_of(secret), now)
    ).fetchone()
    return row["name"] if row else None


def accept(db: sqlite3.Connection, secret: str, password: str | None, now: int) -> int | None:
    """Uses an invitation: its name is a member from here on. Within a transaction, so that only one of many gets in.

    Returns:
        The member's number; None where the invitation is unknown, used or expired.
    """
    used = db.execute(
        "UPDATE invitations SET used = ? WHERE digest = ? AND used IS NULL AND expires > ? RETURNING name",
        (now, digest_of(secret), now),
    ).fetchone()
    return take_in(db, used["name"], password, now) if used else None
