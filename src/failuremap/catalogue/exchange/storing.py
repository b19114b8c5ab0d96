"""Imported records in a folder, with their claims, and from there back as they came."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from failuremap.catalogue.exchange.failure_map import FailureMapRecord, record_of
from failuremap.catalogue.exchange.folder import make_folder, write_file
from failuremap.catalogue.exchange.importing import Imported
from failuremap.catalogue.exchange.intake import decode, read_bytes
from failuremap.catalogue.records.read import read_json
from failuremap.errors import InvalidArgument, RecordError

MAX_BYTES = 4 * 1024 * 1024  # a record of the largest size, indented, with its claims


def store(files: Sequence[Imported], folder: Path) -> None:
    """Stores the imported records in a folder, one file each, with their claims.

    A record of the same id that was stored before is replaced; any other file of that name is refused.

    Raises:
        InvalidArgument: The folder may not be written, or has such a file.
    """
    make_folder(folder)
    records = [one for one in files if one.model]
    for one in records:
        _refuse_other(folder / f"{one.record}.json")
    for one in records:
        text = json.dumps(one.document(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        write_file(folder / f"{one.record}.json", text)


def _refuse_other(path: Path) -> None:
    if not path.exists() and not path.is_symlink():
        return
    try:
        stored_record(path)
    except RecordError as error:
        raise InvalidArgument(f"--out {str(path)!r} is there and is no stored record; nothing was written.") from error


def stored_record(path: Path) -> FailureMapRecord | None:
    """Reads what `store` wrote; None where it is of another form than "failure-map".

    Raises:
        RecordError: It is no such file.
    """
    document = read_json(decode(read_bytes(path, MAX_BYTES), path.name), path.name)
    if not isinstance(document, dict) or set(document) != {"imported", "id", "record", "claims"}:
        raise RecordError(f"record={path.name!r} is none that `failuremap import --out` has stored.")
    return record_of(document["record"], path.name) if document["imported"] == "failure-map" else None
