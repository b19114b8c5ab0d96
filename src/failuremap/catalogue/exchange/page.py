"""The text of a page that shows a record, as that of FA-99246 was published: read strictly, and written back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, ValidationError

from failuremap.catalogue.exchange.failure_map import CaseId, Observation, Observations
from failuremap.catalogue.records.parts import Part, Sha256, Text
from failuremap.catalogue.records.read import problem_of, read_json
from failuremap.errors import RecordError

_STAGE = """Exit {STAGE.exit_code}

{STAGE.source}

Boundary fixture\tActual\tExpected\tOutcome
{STAGE.observations}

SHA-256 / {STAGE.sha256}
"""
_PAGE = f"""{{id}} / {{category}} / {{tier}}

{{title}}

{{abstract}}

Verified by executionVariant {{variant}} · {{checks}} checks per implementationDownload source bundle ↓JSON ↗

ROOT CAUSE

{{root_cause}}

THE FAILURE

{{failure}}

Unsuccessful approach: {{failed_approach}}

Case contract

{{contract}}

Why this case matters

{{relevance}}

1 / The failure

{_STAGE.replace("STAGE", "broken")}
2 / The unsuccessful fix

{_STAGE.replace("STAGE", "attempt")}
HELD IN THE MEMBER ARCHIVE

The verified repair and its recorded checks are member-only.

This mechanism has {{member_checks}} recorded checks per implementation. \
The open-access tier publishes the failure and the unsuccessful fix; the repaired source that passes every check, \
and the observations that prove it, are available to members.

Every case sharing this mechanism uses the same contract and the same repair, \
so this one record is held back for all of them.

Member access is invitation-based. Sign in with your invited account to inspect the repair.

Verification & scope

{{limitations}}

Observations recorded using Python {{python}} at {{generated_at}}.

Case digest / {{sha256}}"""
_PIECES = re.split(r"\{([a-z0-9_.]+)\}", _PAGE)  # literal, field, literal, field, ..., literal
_NUMBERS = {"variant", "checks", "member_checks", "broken.exit_code", "attempt.exit_code"}
_MANY_LINES = {"broken.source", "attempt.source", "broken.observations", "attempt.observations"}
_OUTCOMES = {"Passed": True, "Failed": False}


class PageStage(Part):
    """One stage on a page."""

    exit_code: Annotated[int, Field(ge=0, le=255)]
    source: Text
    """Without its final newline, as a page shows it; the SHA-256 is that of the script, with it."""
    observations: Observations
    sha256: Sha256


class PageRecord(Part):
    """What a page shows of a record."""

    id: CaseId
    category: Text
    tier: Text
    title: Text
    abstract: Text
    variant: Annotated[int, Field(ge=1, le=5)]
    checks: Annotated[int, Field(ge=1)]
    root_cause: Text
    failure: Text
    failed_approach: Text
    contract: Text
    relevance: Text
    broken: PageStage
    attempt: PageStage
    member_checks: int
    limitations: Text
    python: Text
    generated_at: Text
    sha256: Sha256


def parse_page(text: str, name: str) -> PageRecord:
    """Reads the text of a page; what its claims are worth is not looked at.

    Args:
        text: The page's text, section by section, with a blank line between paragraphs.
        name: What to call the record in an error.

    Raises:
        RecordError: It is no such page: the message names the record and the place.
    """
    document: dict[str, Any] = {"broken": {}, "attempt": {}}
    for field, value in _fields(text.replace("\r\n", "\n").rstrip("\n"), name):
        stage, _, part = field.rpartition(".")
        (document[stage] if stage else document)[part] = _value(field, value, name)
    try:
        return PageRecord.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise RecordError(f"record={name!r}: {problem_of(error)}.") from error


def _fields(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Walks through the page: what stands between two fixed texts is a field."""
    at = len(_PIECES[0])
    for field, literal in zip(_PIECES[1::2], _PIECES[2::2], strict=True):
        end = text.find(literal, at) if literal else len(text)
        value = text[at:end]
        if end < 0 or not value or ("\n" in value and field not in _MANY_LINES):
            wanted = literal.strip().split("\n")[0] or "the end of the page"
            raise RecordError(f"record={name!r}: {field}: expected a text on the page, and {wanted!r} after it.")
        yield field, value
        at = end + len(literal)


def _value(field: str, value: str, name: str) -> Any:
    if field in _NUMBERS:
        if not re.fullmatch(r"0|[1-9][0-9]{0,8}", value):
            raise RecordError(f"record={name!r}: {field}={value!r} is no number.")
        return int(value)
    return [_row(field, line, name) for line in value.split("\n")] if field.endswith("observations") else value


def _row(field: str, line: str, name: str) -> dict[str, Any]:
    cells = re.fullmatch(r"([^\t]+)\t`([^\t]+)`\t`([^\t]+)`\t(Passed|Failed)", line)
    if cells is None:
        raise RecordError(
            f"record={name!r}: {field}: {line[:80]!r} is no row of fixture, actual, expected and outcome."
        )
    actual, expected = (read_json(cells[number], f"{name}: {field}: {cells[1]}") for number in (2, 3))
    return {"check": cells[1], "actual": actual, "expected": expected, "passed": _OUTCOMES[cells[4]]}


def write_page(record: PageRecord) -> str:
    """Writes the text of a record's page."""
    parts = list(_PIECES)
    for number, field in enumerate(parts[1::2]):
        stage, _, part = field.rpartition(".")
        value = getattr(getattr(record, stage) if stage else record, part)
        parts[2 * number + 1] = "\n".join(map(_line, value)) if part == "observations" else str(value)
    return "".join(parts)


def _line(seen: Observation) -> str:
    actual, expected = (json.dumps(value, ensure_ascii=False) for value in (seen.actual, seen.expected))
    return f"{seen.check}\t`{actual}`\t`{expected}`\t{'Passed' if seen.passed else 'Failed'}"
