"""What the site says about itself: JSON lines on stderr, of names and numbers, never of what people sent."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from pathlib import Path
from typing import Any

Fact = str | int | float | bool | None


def log(event: str, **facts: Fact) -> None:
    """Writes one line. Facts are names of ours, numbers and addresses: no path, no text, no secret of a visitor."""
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event, **facts}
    print(json.dumps(line, ensure_ascii=True), file=sys.stderr, flush=True)  # noqa: T201


def log_exception(event: str, error: BaseException, **facts: Fact) -> None:
    """Writes where an error came from and its kind; its message may hold what somebody sent, so it isn't written."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-8:]))
    log(event, error=type(error).__name__, at=places, **facts)


class JsonHandler(logging.Handler):
    """Writes the server's own messages in the same form; of an error in a request, its kind and place only."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record."""
        if record.exc_info and record.exc_info[1]:
            log_exception(record.name, record.exc_info[1])
        else:
            log(record.name, message=str(record.msg), level=record.levelname)


def set_up_logging(level: int = logging.WARNING) -> dict[str, Any]:
    """Returns the logging configuration of a serving process."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"json": {"()": JsonHandler}},
        "root": {"handlers": ["json"], "level": level},
    }
