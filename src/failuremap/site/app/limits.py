"""How often something may be tried: counted in the database, so that a restart forgets nothing."""

from __future__ import annotations

import hashlib
import ipaddress
import sqlite3
from dataclasses import dataclass

_IPV6_NETWORK = 64  # one subscriber has that many addresses


@dataclass(frozen=True)
class Limit:
    """At most `most` tries within `within_s` seconds of the first one."""

    kind: str
    most: int
    within_s: int


SIGN_IN_FROM = Limit("sign-in from", 30, 15 * 60)
SIGN_IN_AS = Limit("sign-in as", 10, 15 * 60)
JOIN_FROM = Limit("join from", 30, 15 * 60)


def take(db: sqlite3.Connection, limit: Limit, subject: str, now: int) -> int:
    """Counts one try; returns 0 where it may go on, otherwise the seconds to wait. Within a transaction."""
    key = _key(limit, subject)
    _forget_old(db, now)
    over = "DELETE FROM limits WHERE subject = ? AND (begun <= ? OR begun > ?)"  # a clock may have been set back
    db.execute(over, (key, now - limit.within_s, now + limit.within_s))
    row = db.execute(
        "INSERT INTO limits (subject, begun, taken) VALUES (?, ?, 1) "
        "ON CONFLICT (subject) DO UPDATE SET taken = taken + 1 RETURNING begun, taken",
        (key, now),
    ).fetchone()
    return 0 if row["taken"] <= limit.most else max(1, row["begun"] + limit.within_s - now)


def give_back(db: sqlite3.Connection, limit: Limit, subject: str) -> None:
    """Forgets the tries of a subject that turned out to be who it said."""
    db.execute("DELETE FROM limits WHERE subject = ?", (_key(limit, subject),))


def _forget_old(db: sqlite3.Connection, now: int) -> None:
    """Deletes the counts that hold nobody back any more."""
    longest = max(limit.within_s for limit in (SIGN_IN_FROM, SIGN_IN_AS, JOIN_FROM))
    db.execute("DELETE FROM limits WHERE begun <= ?", (now - longest,))


def network_of(address: str) -> str:
    """Returns what is counted as one address.

    Example:
        >>> network_of("2001:db8::1"), network_of("192.0.2.7")
        ('2001:db8::/64', '192.0.2.7')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, _IPV6_NETWORK), strict=False))
    return str(parsed)


def _key(limit: Limit, subject: str) -> str:
    """Names a count by a digest: the table holds no names that were merely tried."""
    return hashlib.sha256(f"{limit.kind}\0{subject}".encode("utf-8", "surrogatepass")).hexdigest()
