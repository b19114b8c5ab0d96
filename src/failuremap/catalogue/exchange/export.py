"""Cases -> the files of one tier, and from there a folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal

from failuremap import __version__
from failuremap.catalogue.exchange.archive import SUMS, sums_text
from failuremap.catalogue.exchange.as_failure_map import failure_map_record
from failuremap.catalogue.exchange.bundle import bundle
from failuremap.catalogue.exchange.card import card
from failuremap.catalogue.exchange.croissant import croissant
from failuremap.catalogue.exchange.failure_map import write_record
from failuremap.catalogue.exchange.folder import check_folder, write_folder
from failuremap.catalogue.exchange.storing import stored_record
from failuremap.catalogue.exchange.tables import json_lines, parquet
from failuremap.catalogue.exchange.tiers import Holdings, Tier, canary_line, holdings
from failuremap.catalogue.records.model import Case
from failuremap.errors import InvalidArgument

Format = Literal["jsonl", "parquet", "croissant", "card", "failure-map", "bundles"]
FORMATS: tuple[Format, ...] = ("jsonl", "parquet", "croissant", "card", "failure-map", "bundles")
# A description needs what it describes.
_NEEDS: dict[Format, tuple[Format, ...]] = {"croissant": ("jsonl",), "card": ("jsonl",)}

Files = dict[str, bytes]


def export(out: Path, cases: Sequence[Case], tier: Tier = "open", formats: Collection[Format] = FORMATS) -> Files:
    """Writes the cases into a folder, for one tier; the same bytes for the same cases. Returns the files.

    Args:
        out: The folder; it is there whole or not at all.
        cases: Member forms, as `released_cases` makes them.
        tier: Who may read the folder.
        formats: What to write.

    Raises:
        InvalidArgument: The folder holds something else, or may not be written.
        MissingDependency: A format needs a package that is absent.
    """
    check_folder(out)
    files = export_files(cases, tier, formats)
    write_folder(out, files)
    return files


def export_files(cases: Sequence[Case], tier: Tier, formats: Collection[Format] = FORMATS) -> Files:
    """Returns the files of one tier: name -> bytes."""
    held = holdings(cases, tier)
    wanted = {*formats, *(need for one in formats for need in _NEEDS.get(one, ()))}
    files: Files = {}
    for one in FORMATS:
        if one in wanted and one in _WRITERS:
            files |= _WRITERS[one](held)
    if "croissant" in wanted:
        files["croissant.json"] = croissant(held, files, __version__).encode()
    if "card" in wanted:
        files["README.md"] = card(held, files, __version__).encode()
    return _summed(files, canary_line(tier))


def give_back(out: Path, imported: Path) -> Files:
    """Writes the records that `failuremap import --out` stored back in the form "failure-map", byte for byte.

    Raises:
        InvalidArgument: There is no such record in the folder, or the output can't be written.
        RecordError: A file of the folder is none that an import stored.
    """
    check_folder(out)
    records = {path.name: stored_record(path) for path in sorted(imported.glob("*.json"))}
    files = {name: write_record(record).encode() for name, record in records.items() if record}
    if not files:
        raise InvalidArgument(
            f"--imported {str(imported)!r} holds no record in the form failure-map; store one with:  "
            f"failuremap import --out {imported} FILE"
        )
    write_folder(out, _summed(files, "failuremap records of another maker"))
    return files


def _summed(files: Files, mark: str) -> Files:
    return {**files, SUMS: sums_text(files, mark).encode()}


def _jsonl(held: Holdings) -> Files:
    files = {"cases.jsonl": json_lines(case.document() for case in held.cases)}
    if held.held_back:
        files["held-back.jsonl"] = json_lines(case.document() for case in held.held_back)
    if held.contracts:
        files["contracts.jsonl"] = json_lines(held.contracts)
    return files


def _parquet(held: Holdings) -> Files:
    files = {"cases.parquet": parquet(held.cases, held.tier)}
    return files | ({"held-back.parquet": parquet(held.held_back, held.tier)} if held.held_back else {})


def _failure_map(held: Holdings) -> Files:
    return {
        f"failure-map/{case.id}.json": write_record(failure_map_record(case, held.tier)).encode()
        for case in (*held.cases, *held.held_back)
    }


def _bundles(held: Holdings) -> Files:
    return {f"bundles/{case.id}.zip": bundle(case, held.tier) for case in (*held.cases, *held.held_back)}


_WRITERS: dict[Format, Callable[[Holdings], Files]] = {
    "jsonl": _jsonl,
    "parquet": _parquet,
    "failure-map": _failure_map,
    "bundles": _bundles,
}
