"""Text -> a checked case, or one error that names the record and the field."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from pydantic import ValidationError

from failuremap.catalogue.records.digest import Document
from failuremap.catalogue.records.model import Case
from failuremap.catalogue.records.plain import clipped, field_name, unfit
from failuremap.errors import RecordError

MAX_BYTES = 4 * 1024 * 1024
"""A record is some 20 kB; what is larger than this is refused unread."""


def read_json(text: str, name: str, max_bytes: int = MAX_BYTES) -> Any:
    """Reads JSON strictly: what every reader takes for the same, no key twice, no text beyond `max_bytes`.

    Args:
        text: The JSON.
        name: What to call the record in an error: its file, or its id.
        max_bytes: How long a text may be.

    Raises:
        RecordError: The text is no such JSON.
    """
    if len(text) > max_bytes:
        raise RecordError(f"record={name!r}: {len(text)} characters; a record has at most {max_bytes}.")

    def refuse(constant: str) -> Any:
        raise RecordError(f"record={name!r}: {constant} is no JSON; write such a number as a string.")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = next((key for key, times in Counter(key for key, _ in pairs).items() if times > 1), None)
        if twice is not None:
            raise RecordError(f"record={name!r}: the field {twice!r} is there twice in one object.")
        return dict(pairs)

    try:
        document = json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    except RecordError:
        raise
    except (ValueError, RecursionError) as error:
        raise RecordError(f"record={name!r} is no JSON: {error}.") from error
    for field, problem in unfit(document):
        raise RecordError(f"record={name!r}: {field_name(field)} {problem}.")
    return document


def case_from_json(text: str, name: str = "") -> Case:
    """Reads one record, in its open or in its member form, and checks everything that it says of itself.

    Args:
        text: The record as JSON.
        name: What to call it in an error; its id where it is not given.

    Raises:
        RecordError: It is not a record of this schema, or contradicts itself.
    """
    document = read_json(text, name or "?")
    if not isinstance(document, dict):
        raise RecordError(f"record={name or '?'!r} is a JSON {type(document).__name__}; expected an object.")
    return case_from_document(document, name)


def case_from_document(document: Document, name: str = "") -> Case:
    """Makes a checked case of plain JSON values; otherwise as `case_from_json`."""
    name = name or str(document.get("id", "?"))
    try:
        return Case.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise RecordError(f"record={name!r}: {problem_of(error)}.") from error
    except RecursionError as error:
        raise RecordError(f"record={name!r} is nested too deeply.") from error


def problem_of(error: ValidationError) -> str:
    """Says the first problem of a validation in one sentence, with the field that has it."""
    first = error.errors(include_url=False)[0]
    field = field_name(first["loc"])
    if first["type"] == "missing":
        return f"{field} is missing"
    if first["type"] == "extra_forbidden":
        return f"{field} is no field of this schema"
    if first["type"] == "value_error":
        return clipped(f"{field}: {first['ctx']['error']}" if field else str(first["ctx"]["error"])).rstrip(".")
    given = repr(first["input"])
    shown = given if len(given) <= 80 else given[:77] + "..."
    message = first["msg"][0].lower() + first["msg"][1:]
    return f"{field}={shown}: {message}"
