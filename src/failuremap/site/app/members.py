"""Who is a member: names, and what belongs to each."""

from __future__ import annotations

import secrets
import sqlite3
import unicodedata
from dataclasses import dataclass

from failuremap.errors import InvalidArgument

MAX_NAME = 64
_MOST_FOLDED = 8 * MAX_NAME  # a sign may be typed as several; the time that Unicode's forms take grows by the square


@dataclass(frozen=True)
class Member:
    """A member.

    Attributes:
        id: The number by which the database knows them; never used again.
        name: As the invitation has it.
        joined: When, in seconds since 1970.
    """

    id: int
    name: str
    joined: int


def check_name(name: str) -> str:
    """Returns a name in its normal form.

    Raises:
        InvalidArgument: It is empty, too long, or has signs that can't be seen.
    """
    normal = unicodedata.normalize("NFC", name).strip()
    if not 1 <= len(normal) <= MAX_NAME or not normal.isprintable():
        raise InvalidArgument(
            f"name={name!r}: expected 1 to {MAX_NAME} signs that can be seen, such as 'Ada Lovelace'."
        )
    return normal


def folded(name: str) -> str:
    """Returns the form in which names are compared: two that look alike in this are one."""
    name = name[:_MOST_FOLDED]
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()


def find(db: sqlite3.Connection, name: str) -> Member | None:
    """Returns the member of a name."""
    row = db.execute("SELECT id, name, joined FROM members WHERE folded = ?", (folded(name),)).fetchone()
    return Member(*row) if row else None


def stored_password(db: sqlite3.Connection, name: str) -> tuple[int, str | None] | None:
    """Returns the number and the stored password of the member of a name."""
    row = db.execute("SELECT id, password FROM members WHERE folded = ?", (folded(name),)).fetchone()
    return (row["id"], row["password"]) if row else None


def everybody(db: sqlite3.Connection) -> list[Member]:
    """Returns all members, in the order of their joining."""
    return [Member(*row) for row in db.execute("SELECT id, name, joined FROM members ORDER BY id")]


def take_in(db: sqlite3.Connection, name: str, password: str | None, now: int) -> int:
    """Adds a member, or gives the one of this name another password; returns their number. Within a transaction.

    Whoever had opened a session by the old password, or left a passkey, is out.
    """
    known = find(db, name)
    if known is None:
        handle = secrets.token_bytes(32)
        row = (name, folded(name), handle, password, now)
        made = db.execute("INSERT INTO members (name, folded, handle, password, joined) VALUES (?, ?, ?, ?, ?)", row)
        assert made.lastrowid is not None
        return made.lastrowid
    db.execute("UPDATE members SET password = ? WHERE id = ?", (password, known.id))
    db.execute("DELETE FROM sessions WHERE member = ?", (known.id,))
    db.execute("DELETE FROM passkeys WHERE member = ?", (known.id,))
    return known.id


def remove(db: sqlite3.Connection, name: str) -> Member:
    """Removes a member with their sessions, passkeys, invitations and submissions. Within a transaction.

    Raises:
        InvalidArgument: Nobody has this name.
    """
    member = find(db, name)
    if member is None:
        raise InvalidArgument(f"name={name!r} is that of no member; `failuremap member list` shows all names.")
    db.execute("DELETE FROM invitations WHERE name = ?", (member.name,))
    db.execute("DELETE FROM members WHERE id = ?", (member.id,))
    return member
