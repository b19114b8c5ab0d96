"""A file of another maker -> its record, and what each of its claims is worth."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from failuremap.catalogue.exchange.bundle import MAX_BUNDLE_BYTES, is_bundle, read_bundle, unlike_ours
from failuremap.catalogue.exchange.checking import check
from failuremap.catalogue.exchange.claim import Claim
from failuremap.catalogue.exchange.failure_map import FailureMapRecord, record_of, write_record
from failuremap.catalogue.exchange.intake import MAX_BYTES, decode, read_bytes
from failuremap.catalogue.exchange.page import PageRecord, parse_page
from failuremap.catalogue.exchange.splits import Standing, check_splits
from failuremap.catalogue.exchange.statement import Statement
from failuremap.catalogue.exchange.statements import statement_of_case, statement_of_page, statement_of_record
from failuremap.catalogue.records.model import Case
from failuremap.catalogue.records.read import case_from_document, read_json
from failuremap.errors import RecordError

_PAGE_START = re.compile(r"\w+-[\w-]+ / ")

Form = Literal["failure-map", "page", "case"]


@dataclass(frozen=True)
class Imported:
    """One file, read and checked.

    Attributes:
        file: Its name.
        record: The record's id; the file's name where it could not be read.
        form: What it was; None where it could not be read.
        claims: What it says, and what that is worth.
        model: The record itself.
        statement: What it states.
    """

    file: str
    record: str
    form: Form | None
    claims: tuple[Claim, ...]
    model: FailureMapRecord | PageRecord | Case | None = None
    statement: Statement | None = None

    @property
    def holds(self) -> bool:
        """True where no claim fails."""
        return all(claim.result != "fails" for claim in self.claims)

    def document(self) -> dict[str, Any]:
        """Returns what is stored of it: the record as it was read, and its claims."""
        record = None if self.model is None else self.model.model_dump(mode="json")
        claims = [asdict(claim) for claim in self.claims]
        return {"imported": self.form, "id": self.record, "record": record, "claims": claims}


def import_files(paths: Sequence[Path]) -> list[Imported]:
    """Reads and checks records; one that can't be read is a failing claim, and the others go on.

    The form of each is found out: a record in the form "failure-map" or of this catalogue, the text of a page, or a
    bundle. Records are also held against one another: an id is there once, and no split tells of another.
    """
    files = [import_file(path) for path in paths]
    together = _together([one.statement for one in files if one.statement])
    return [*files, Imported("", "all files", None, (together,))] if len(files) > 1 else files


def import_file(path: Path) -> Imported:
    """Reads and checks one record; otherwise as `import_files`."""
    try:
        form, model, statement = _read(path)
        claims = [Claim("form", "holds", f"{form}: no field is missing or unknown{_layout(path, model)}")]
        claims += check(statement)
    except RecordError as error:
        return Imported(path.name, path.name, None, (Claim("form", "fails", str(error)),))
    except RecursionError:
        problem = f"record={path.name!r}: a value or a script in it is nested too deeply."
        return Imported(path.name, path.name, None, (Claim("form", "fails", problem),))
    return Imported(path.name, statement.record, form, tuple(claims), model, statement)


def _layout(path: Path, model: FailureMapRecord | PageRecord | Case) -> str:
    """Says of a record that can be given back whether its bytes will be those that came."""
    if not isinstance(model, FailureMapRecord):
        return ""
    same = write_record(model).encode() == read_bytes(path)
    return "; its bytes are those that export gives back" if same else "; export gives its values back, not its layout"


def _read(path: Path) -> tuple[Form, FailureMapRecord | PageRecord | Case, Statement]:
    """Finds out the form of a file, and reads it."""
    if is_bundle(path):
        content = read_bytes(path, MAX_BUNDLE_BYTES)
        case = read_bundle(content, path.name)
        return "case", case, _of_bundle(statement_of_case(case), unlike_ours(content, case))
    text = decode(read_bytes(path, MAX_BYTES), path.name)
    start = text.lstrip()[:40]
    if _PAGE_START.match(start):
        page = parse_page(text, path.name)
        return "page", page, statement_of_page(page)
    if not start.startswith(("{", "[")):
        raise RecordError(f"record={path.name!r} begins with {start!r}; expected a JSON object, or a page's 'ID / '.")
    document = read_json(text, path.name)
    if isinstance(document, dict) and "schema_version" in document:
        case = case_from_document(document, path.name)
        return "case", case, statement_of_case(case)
    record = record_of(document, path.name)
    return "failure-map", record, statement_of_record(record)


def _of_bundle(statement: Statement, unlike: str) -> Statement:
    """Adds what a bundle says beside its record."""
    if not unlike:
        return statement
    why = f"this version writes otherwise: {unlike}; read it before you follow it"
    return replace(statement, uncheckable={**statement.uncheckable, "bundle": why})


def _together(statements: list[Statement]) -> Claim:
    """Holds records against one another."""
    ids = [statement.record for statement in statements]
    twice = next((name for number, name in enumerate(ids) if name in ids[:number]), None)
    if twice:
        return Claim("ids and splits", "fails", f"id={twice!r} is there twice; an id names one record")
    try:
        check_splits(map(_standing, filter(lambda one: one.group, statements)))
    except RecordError as error:
        return Claim("ids and splits", "fails", str(error).replace("\n", " "))
    return Claim("ids and splits", "holds", "each id is there once, and no split tells of another")


def _standing(statement: Statement) -> Standing:
    repaired = [stage.source for stage in statement.stages if stage.stage == "fixed"]
    return Standing(statement.family, statement.group, statement.split, repaired[0] if repaired else "")


def to_json(files: Sequence[Imported]) -> str:
    """Writes the claims of all files as JSON."""
    rows = [
        {
            "file": one.file,
            "record": one.record,
            "form": one.form,
            "holds": one.holds,
            "claims": [asdict(c) for c in one.claims],
        }
        for one in files
    ]
    return json.dumps({"holds": all(one.holds for one in files), "records": rows}, indent=2, ensure_ascii=False) + "\n"
