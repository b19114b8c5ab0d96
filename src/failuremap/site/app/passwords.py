"""Passwords: argon2id, and the same work for a name that nobody has."""

from __future__ import annotations

import threading
import unicodedata
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from failuremap.errors import InvalidArgument

MIN_LENGTH = 12
MAX_LENGTH = 1024
_AT_ONCE = threading.BoundedSemaphore(2)  # a hash takes 64 MiB: more at once would let strangers fill the memory
_hasher = PasswordHasher()


def check_password(password: str) -> None:
    """Refuses a password that is too short; what it is made of is its owner's choice.

    Raises:
        InvalidArgument: Says how long it should be; never repeats it.
    """
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise InvalidArgument(f"A password has {MIN_LENGTH} to {MAX_LENGTH} characters; this one has {len(password)}.")


def hash_password(password: str) -> str:
    """Returns what is stored of a password."""
    with _AT_ONCE:
        return _hasher.hash(_normal(password))


def is_password(stored: str | None, password: str) -> bool:
    """True where a password is the one that was stored; without a stored one the work is the same, and it is not."""
    with _AT_ONCE:
        try:
            right = _hasher.verify(stored or _decoy(), _normal(password[: MAX_LENGTH + 1]))
        except (Argon2Error, InvalidHashError):
            return False
    return right and stored is not None


@cache
def _decoy() -> str:
    """A hash with the costs of a real one, of no password that anybody knows."""
    return _hasher.hash("")


def _normal(password: str) -> bytes:
    """The same bytes on every keyboard: composed signs, as NFKC has them."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
