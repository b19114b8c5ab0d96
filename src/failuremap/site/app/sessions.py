"""Sessions: rows that can be revoked, known by the digest of a cookie."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from failuremap.site.app.members import Member
from failuremap.site.app.secrets_ import digest_of, new_secret
from failuremap.site.app.settings import Settings

_TOUCH_EVERY_S = 60  # a row written at every request would make every reader a writer


@dataclass(frozen=True)
class Session:
    """One sign-in of one member.

    Attributes:
        member: Whose.
        digest: What is stored of its cookie.
    """

    member: Member
    digest: bytes


def cookie_name(settings: Settings) -> str:
    """Returns the name of the cookie. With `__Host-` a browser takes it from this host only, over https only."""
    return "__Host-fm" if settings.address.is_https else "fm-local"


def begin(db: sqlite3.Connection, member: int, now: int) -> str:
    """Begins a session and returns the secret of its cookie. Within a transaction."""
    secret = new_secret()
    row = (digest_of(secret), member, now, now)
    db.execute("INSERT INTO sessions (digest, member, begun, seen) VALUES (?, ?, ?, ?)", row)
    return secret


def find(db: sqlite3.Connection, secret: str, settings: Settings, now: int) -> Session | None:
    """Returns the session of a cookie; None where there is none, or its time is over."""
    row = db.execute(
        "SELECT s.digest, s.begun, s.seen, m.id, m.name, m.joined FROM sessions s JOIN members m ON m.id = s.member "
        "WHERE s.digest = ? AND s.begun > ? AND s.seen > ?",
        (digest_of(secret), now - settings.session_s, now - settings.idle_s),
    ).fetchone()
    if row is None:
        return None
    if now - row["seen"] >= min(_TOUCH_EVERY_S, settings.idle_s / 2):
        db.execute("UPDATE sessions SET seen = ? WHERE digest = ?", (now, row["digest"]))
    return Session(Member(row["id"], row["name"], row["joined"]), row["digest"])


def end(db: sqlite3.Connection, digest: bytes) -> None:
    """Ends one session."""
    db.execute("DELETE FROM sessions WHERE digest = ?", (digest,))


def end_all(db: sqlite3.Connection, member: int) -> int:
    """Ends all sessions of a member; returns how many there were."""
    return db.execute("DELETE FROM sessions WHERE member = ?", (member,)).rowcount


def count(db: sqlite3.Connection, member: int, settings: Settings, now: int) -> int:
    """Counts the sessions of a member that are open."""
    row = db.execute(
        "SELECT count(*) FROM sessions WHERE member = ? AND begun > ? AND seen > ?",
        (member, now - settings.session_s, now - settings.idle_s),
    ).fetchone()
    return int(row[0])


def forget_expired(db: sqlite3.Connection, settings: Settings, now: int) -> None:
    """Deletes the sessions whose time is over."""
    db.execute("DELETE FROM sessions WHERE begun <= ? OR seen <= ?", (now - settings.session_s, now - settings.idle_s))
