"""A file that somebody sent -> its text, or one error: its size is checked before it is read."""

from __future__ import annotations

import codecs
from pathlib import Path

from failuremap.errors import InvalidArgument, RecordError

MAX_BYTES = 1024 * 1024
"""A record of another maker is some 10 kB; a file larger than this is refused unread."""
MIN_KEY_BYTES = 16


def read_bytes(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Returns the bytes of a regular file.

    Raises:
        RecordError: There is none, it can't be read, or it is too large.
    """
    record = path.name
    try:
        if not path.is_file():
            what = "is no regular file" if path.exists() else "doesn't exist"
            raise RecordError(f"record={record!r}: {str(path)!r} {what}; expected a record, a page's text or a bundle.")
        if path.stat().st_size > max_bytes:
            raise RecordError(
                f"record={record!r}: {path.stat().st_size} bytes; a record has at most {max_bytes}. It was not read."
            )
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"record={record!r} can't be read: {error.strerror}.") from error


def read_key(path: Path) -> bytes:
    """Returns the key of the salts from a file.

    Raises:
        InvalidArgument: It can't be read, or is too short to hide anything.
    """
    if path.exists() and not path.is_file():  # to read a device may never end
        raise InvalidArgument(f"--key {str(path)!r} is no regular file; expected one of random bytes.")
    try:
        key = path.read_bytes()
    except OSError as error:
        raise InvalidArgument(f"--key {str(path)!r} can't be read: {error.strerror}.") from error
    if not MIN_KEY_BYTES <= len(key) <= MAX_BYTES:
        raise InvalidArgument(
            f"--key {str(path)!r} has {len(key)} bytes; expected a file of at least {MIN_KEY_BYTES} random bytes:  "
            f"head -c 32 /dev/urandom > {path}"
        )
    return key


def decode(content: bytes, record: str) -> str:
    """Returns the text of UTF-8 bytes.

    Raises:
        RecordError: They are none, and the message names the first wrong byte; or a byte order mark precedes them.
    """
    if content.startswith(codecs.BOM_UTF8):
        raise RecordError(f"record={record!r} begins with a byte order mark. Save it as UTF-8 without one.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(
            f"record={record!r} is not UTF-8: byte {error.start} is 0x{content[error.start]:02x}. Save it as UTF-8."
        ) from error
