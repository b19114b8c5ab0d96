"""Secrets that are handed out once and stored as their SHA-256."""

from __future__ import annotations

import hashlib
import secrets

SECRET_BYTES = 32


def new_secret() -> str:
    """Returns 32 random bytes as text that may stand in an address or a cookie."""
    return secrets.token_urlsafe(SECRET_BYTES)


def digest_of(secret: str) -> bytes:
    """Returns what is stored of a secret: enough to know it again, not to use it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
