"""The queue of candidates: handed in by members, judged by the worker, lost by nobody."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

from failuremap.score.verdict import Verdict

MAX_SOURCE_BYTES = 64 * 1024
MAX_NOTE = 200
MAX_TRIES = 3
"""A candidate that ended the worker this often is judged no more."""
DAY_S = 24 * 3600
SOUND_LEVELS = frozenset({"box-2", "box-3"})
"""The boxes in which a member's candidate may run."""

State = Literal["queued", "running", "judged"]
_COLUMNS = "id, member, case_id, source, note, handed_in, state, tries, judged, verdict"


@dataclass(frozen=True)
class Submission:
    """One candidate of one member.

    Attributes:
        id: Its number.
        member: Whose.
        case_id: The case that it should repair.
        source: The Python text.
        note: What its author wrote beside it.
        handed_in: When.
        state: How far it has come.
        tries: How often the worker has begun to judge it.
        judged: When it was judged.
        verdict: What the judge said, as plain JSON values.
    """

    id: int
    member: int
    case_id: str
    source: str
    note: str
    handed_in: int
    state: State
    tries: int
    judged: int | None
    verdict: dict[str, Any] | None


def hand_in(db: sqlite3.Connection, member: int, case_id: str, source: str, note: str, now: int) -> int:
    """Puts a candidate into the queue and returns its number. Within a transaction."""
    row = (member, case_id, source, note, now)
    made = db.execute(
        "INSERT INTO submissions (member, case_id, source, note, handed_in, state) VALUES (?, ?, ?, ?, ?, 'queued')",
        row,
    )
    assert made.lastrowid is not None
    return made.lastrowid


def wait_s(db: sqlite3.Connection, member: int, a_day: int, now: int) -> int:
    """Returns how long a member has to wait before they may hand in again; 0 where they may now."""
    rows = db.execute(
        "SELECT handed_in FROM submissions WHERE member = ? AND handed_in > ? ORDER BY handed_in DESC LIMIT ?",
        (member, now - DAY_S, a_day),
    ).fetchall()
    return 0 if len(rows) < a_day else max(1, int(rows[-1]["handed_in"]) + DAY_S - now) if rows else DAY_S


def of_member(db: sqlite3.Connection, member: int) -> list[Submission]:
    """Returns the candidates of a member, the newest first, without their texts, which together may be large."""
    columns = _COLUMNS.replace("source", "'' AS source")
    rows = db.execute(f"SELECT {columns} FROM submissions WHERE member = ? ORDER BY id DESC", (member,))  # noqa: S608
    return [_submission(row) for row in rows]


def one_of_member(db: sqlite3.Connection, member: int, number: int) -> Submission | None:
    """Returns one candidate of a member; None where it isn't theirs or there is none: which, is not told."""
    query = f"SELECT {_COLUMNS} FROM submissions WHERE member = ? AND id = ?"  # noqa: S608
    row = db.execute(query, (member, number)).fetchone()
    return _submission(row) if row else None


def queue_length(db: sqlite3.Connection) -> int:
    """Counts the candidates that have no verdict yet."""
    return int(db.execute("SELECT count(*) FROM submissions WHERE state != 'judged'").fetchone()[0])


def claim(db: sqlite3.Connection) -> Submission | None:
    """Takes the oldest candidate out of the queue. Within a transaction."""
    row = db.execute(
        "UPDATE submissions SET state = 'running', tries = tries + 1 "  # noqa: S608
        f"WHERE id = (SELECT min(id) FROM submissions WHERE state = 'queued') RETURNING {_COLUMNS}"
    ).fetchone()
    return _submission(row) if row else None


def finish(db: sqlite3.Connection, number: int, verdict: dict[str, Any], now: int) -> None:
    """Writes a verdict down. Within a transaction."""
    text = json.dumps(verdict, ensure_ascii=False)
    db.execute("UPDATE submissions SET state = 'judged', verdict = ?, judged = ? WHERE id = ?", (text, now, number))


def return_to_queue(db: sqlite3.Connection, number: int) -> None:
    """Puts back a candidate whose judging was interrupted from outside: it isn't counted as a try."""
    query = "UPDATE submissions SET state = 'queued', tries = tries - 1 WHERE id = ? AND state = 'running'"
    db.execute(query, (number,))


def recover(db: sqlite3.Connection, now: int) -> None:
    """Puts back what an earlier worker left running; what ended it too often is given up. Within a transaction."""
    for row in db.execute("SELECT id, case_id, tries FROM submissions WHERE state = 'running'").fetchall():
        if row["tries"] >= MAX_TRIES:
            finish(db, row["id"], given_up(row["case_id"], row["tries"]), now)
    db.execute("UPDATE submissions SET state = 'queued' WHERE state = 'running'")


def given_up(case_id: str, tries: int) -> dict[str, Any]:
    """Returns the verdict on a candidate that can't be judged: an error of the judge, not of the candidate."""
    sentence = f"The judge failed at this candidate, at try {tries} of {MAX_TRIES}; it was not judged."
    return Verdict(outcome="judge-error", sentence=sentence, case=case_id).model_dump(mode="json")


def say_level(db: sqlite3.Connection, level: str, now: int) -> None:
    """Writes down in which box the worker judges; "none" where it has no sound one."""
    db.execute(
        "INSERT INTO judging (id, level, since) VALUES (1, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET level = excluded.level, since = excluded.since",
        (level, now),
    )


def judging_since(db: sqlite3.Connection) -> int:
    """Returns when a worker last became ready, in seconds since 1970; 0 where none ever did."""
    row = db.execute("SELECT since FROM judging WHERE id = 1").fetchone()
    return int(row["since"]) if row else 0


def level_of(db: sqlite3.Connection) -> str:
    """Returns the box in which candidates are judged; "none" where they are not."""
    row = db.execute("SELECT level FROM judging WHERE id = 1").fetchone()
    return str(row["level"]) if row else "none"


def _submission(row: sqlite3.Row) -> Submission:
    verdict = json.loads(row["verdict"]) if row["verdict"] else None
    return Submission(**{**dict(row), "verdict": verdict})
