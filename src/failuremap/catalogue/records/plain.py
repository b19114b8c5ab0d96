"""Plain JSON values: what in them has no place in a record, and how a field of them is called."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

Field = tuple[str | int, ...]

_MAX_DEPTH = 64
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN_HEAD, _SHOWN_TAIL = 300, 150


def unfit(value: Any, at: Field = ()) -> Iterator[tuple[Field, str]]:
    """Yields the places of what JSON can say, and not every reader of JSON can hold."""
    if len(at) > _MAX_DEPTH:
        yield at[:4], f"is nested more than {_MAX_DEPTH} deep"
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(key, str) and _SURROGATE.search(key):
                yield (*at, key), "has half of a surrogate pair in its name"
            yield from unfit(inner, (*at, key))
    elif isinstance(value, float) and not math.isfinite(value):
        yield at, "is a number beyond 1.8e308; write it as a string"
    elif isinstance(value, str) and _SURROGATE.search(value):
        yield at, "has half of a surrogate pair, which is no character"


def field_name(parts: Iterable[str | int]) -> str:
    """Returns a field's path; a part that is no plain name is quoted.

    Example:
        >>> field_name(["checks", 0, "a\\nb"])
        "checks.0.'a\\\\nb'"
    """
    return clipped(".".join(str(part) if re.fullmatch(r"[\w*-]+", str(part)) else repr(part) for part in parts))


def clipped(text: str) -> str:
    """Returns a text whose middle is left out where it is too long to be read."""
    most = _SHOWN_HEAD + _SHOWN_TAIL
    return text if len(text) <= most else f"{text[:_SHOWN_HEAD]} ... {text[-_SHOWN_TAIL:]}"
