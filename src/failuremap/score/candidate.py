"""The candidate's bytes, or one sentence that says why there are none."""

from __future__ import annotations

from pathlib import Path

from failuremap.score.limits import Limits
from failuremap.score.stopped import Stopped


def read_candidate(source: bytes | Path, limits: Limits) -> bytes:
    """Returns a candidate's bytes.

    Raises:
        Stopped: There is no file to be read there, or it is larger than what the box takes (`malformed`).
    """
    if isinstance(source, bytes):
        return source
    if source.is_dir():
        raise Stopped("malformed", f"candidate={str(source)!r} is a folder; give the file that defines solve")
    if source.exists() and not source.is_file():
        raise Stopped("malformed", f"candidate={str(source)!r} is no regular file; give the file that defines solve")
    try:
        with source.open("rb") as file:
            return file.read(limits.source_bytes + 1)
    except OSError as error:
        raise Stopped("malformed", f"candidate={str(source)!r} can't be read: {error.strerror}") from None
