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
import json
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
        return _encoded(value)
    except rfc8785.CanonicalizationError as error:
        raise RecordError(f"no canonical JSON (RFC 8785): {error}; write such a value as a string.") from error
    except RecursionError as error:
        raise RecordError("no canonical JSON (RFC 8785): the value is nested too deeply.") from error


def _encoded(value: Any) -> bytes:
    """Encodes by json.dumps, which is ten times as fast, where that gives what RFC 8785 asks for."""
    try:
        text = json.dumps(_as_integers(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode()
    except (_Unlike, UnicodeEncodeError):
        return rfc8785.dumps(value)


class _Unlike(Exception):
    """json.dumps may write this otherwise than RFC 8785, or not refuse it."""


def _as_integers(value: Any) -> Any:
    """Copies a value whose floats json.dumps writes as JavaScript does, once the whole ones among them are integers.

    Between 1e-4 and 1e15 both write the shortest digits that give the float back, without an exponent. Names are
    sorted by UTF-16 units there and by code points here, which for ASCII is the same.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is list or kind is tuple:
        return [_as_integers(inner) for inner in value]
    if kind is dict and all(type(name) is str and name.isascii() for name in value):
        return {name: _as_integers(inner) for name, inner in value.items()}
    if kind is int and abs(value) < 2**53:
        return value
    if kind is float and abs(value) < 1e15 and (value.is_integer() or abs(value) >= 1e-4):
        return int(value) if value.is_integer() else value
    raise _Unlike


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
