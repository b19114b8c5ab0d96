"""The process that judges: it takes candidates from the queue, one after another, and runs them in a sound box only.

    python -m failuremap.site.app.worker DATABASE [KEY_FILE]

It ends when its standard input does: the serving process holds the other end, so no worker outlives it for long. At
SIGTERM it puts back what it was judging.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from failuremap.catalogue.exchange.intake import read_key
from failuremap.errors import InvalidArgument
from failuremap.site.app import submissions
from failuremap.site.app.database import opened, transaction
from failuremap.site.app.locking import locked
from failuremap.site.app.logs import log, log_exception

_LOOK_AGAIN_S = 0.25
_STDIN = 0
_WAIT_FOR_OTHER_S = 60.0

Judge = Callable[[str, str], dict[str, Any]]
"""Source and case -> the verdict as plain JSON values."""


class _Stop(BaseException):
    """Somebody wants this process to end; no judge's `except Exception` holds it up."""


def main(database: Path, key: bytes | None) -> None:
    """Judges until it is told to stop."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the serving process says when to stop
    threading.Thread(target=_stop_with_the_server, daemon=True).start()
    try:
        with locked(database.with_name(f"{database.name}.judging"), _WAIT_FOR_OTHER_S) as free:
            if not free:
                log("another worker judges")
                return
            _work(database, key)
    except _Stop:
        log("worker stopped")
    except (sqlite3.Error, InvalidArgument) as error:
        log_exception("worker failed", error, reason=getattr(error, "sqlite_errorname", ""))
        sys.exit(1)


def _work(database: Path, key: bytes | None) -> None:
    level = _sound_level()
    with opened(database) as db:
        with transaction(db):
            submissions.recover(db, int(time.time()))
            submissions.say_level(db, level, int(time.time()))
        log("worker ready", level=level)
        while True:
            if level not in submissions.SOUND_LEVELS or not judge_next(
                db, lambda source, case_id: _judged(source, case_id, key)
            ):
                time.sleep(_LOOK_AGAIN_S)


def judge_next(db: sqlite3.Connection, judge: Judge) -> bool:
    """Judges the oldest candidate of the queue; returns whether there was one."""
    with transaction(db):
        claimed = submissions.claim(db)
    if claimed is None:
        return False
    try:
        verdict = judge(claimed.source, claimed.case_id)
    except Exception as error:  # noqa: BLE001 - an error of ours is a verdict of its own, never one on the candidate
        log_exception("judge failed", error, submission=claimed.id)
        verdict = submissions.given_up(claimed.case_id, claimed.tries)
    except BaseException:
        with transaction(db):
            submissions.return_to_queue(db, claimed.id)
        raise
    with transaction(db):
        submissions.finish(db, claimed.id, verdict, int(time.time()))
    log("judged", submission=claimed.id, case=claimed.case_id, outcome=verdict["outcome"])
    return True


def _judged(source: str, case_id: str, key: bytes | None) -> dict[str, Any]:
    from failuremap.score import judge

    return judge(source.encode(), case_id, key=key).model_dump(mode="json")


def _sound_level() -> str:
    from failuremap.score.box import sound_level

    level = sound_level()
    return level if level in submissions.SOUND_LEVELS else "none"


def _stop(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: a second one would interrupt the putting back
    raise _Stop


def _stop_with_the_server() -> None:
    while os.read(_STDIN, 1):  # past sys.stdin, whose lock a thread may not hold when Python ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(Path(sys.argv[1]), read_key(Path(sys.argv[2])) if len(sys.argv) > 2 else None)
