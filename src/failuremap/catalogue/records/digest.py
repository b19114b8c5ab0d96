"""The digest of a record, and the commitments to what its open form withholds: bytes that anyone can recompute.

    digest      = sha256(JCS(the open form without "sha256"))
    commitment  = sha256(JCS({"path": path, "salt": salt, "value": value}))
    salt        = HMAC-SHA256(key, id + path), in hexadecimal

JCS is the JSON canonicalisation scheme of RFC 8785, which a browser computes as well as Python. The digest is that of
the open form, so one digest names a record in both of its forms. With the published key a commitment binds but doesn't
hide: whoever guesses a withheld value can confirm the guess.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import rfc8785

from failuremap.errors import RecordError

WITHHELD = ("implementations.fixed", "verification.fixed", "harness", "repair")
"""The paths that the open form of a record lacks, in the order of its `member_only.fields`."""
MEMBER_ONLY = ("member_only.salts", "member_only.canary")
"""The other paths of the member form: what opens the commitments, and the member tier's canary."""
PUBLISHED_KEY = b"failuremap: published key of the salts; commitments bind, they do not hide"

Document = dict[str, Any]


def canonical(value: Any) -> bytes:
    """Returns the canonical JSON of a value, as RFC 8785 has it.

    Raises:
        RecordError: There is none: nan, an infinity, an integer beyond 2^53 - 1, half of a surrogate pair.

    Example:
        >>> canonical({"b": 2.0, "a": -0.0})
        b'{"a":0,"b":2}'
    """
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise RecordError(f"no canonical JSON (RFC 8785): {error}; write such a value as a string.") from error
    except RecursionError as error:
        raise RecordError("no canonical JSON (RFC 8785): the value is nested too deeply.") from error


def sha256_text(text: str) -> str:
    """Returns the SHA-256 of a text's UTF-8 bytes, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def open_form(document: Document) -> Document:
    """Returns the record that strangers read: the document without what is withheld; the original stays as it is."""
    opened = document
    for path in (*WITHHELD, *MEMBER_ONLY):
        opened = _without(opened, path.split("."))
    return opened


def record_digest(document: Document) -> str:
    """Returns the digest of a record, given in its open or in its member form."""
    return hashlib.sha256(canonical(_without(open_form(document), ["sha256"]))).hexdigest()


def salt_of(case_id: str, path: str, key: bytes = PUBLISHED_KEY) -> str:
    """Returns the salt of one withheld path: the same in every build with this key."""
    return hmac.new(key, (case_id + path).encode(), hashlib.sha256).hexdigest()


def open_commitment(path: str, salt: str, value: Any) -> str:
    """Returns the commitment that a withheld value has; equal to the published one, it was this value.

    Example:
        >>> open_commitment("repair", salt_of("FM-001-1", "repair"), "divide once")[:16]
        '7c6d0de39f6abf3e'
    """
    return hashlib.sha256(canonical({"path": path, "salt": salt, "value": value})).hexdigest()


def value_at(document: Document, path: str) -> Any:
    """Returns what a document holds at a dotted path; None where it holds nothing."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _without(document: Document, names: list[str]) -> Document:
    first, *rest = names
    if first not in document:
        return document
    if not rest:
        return {name: value for name, value in document.items() if name != first}
    if not isinstance(document[first], dict):
        return document
    return {**document, first: _without(document[first], rest)}
