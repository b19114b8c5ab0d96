"""The card of a data set: README.md with the header that the Hugging Face hub reads."""

from __future__ import annotations

import json
from collections.abc import Collection

from failuremap.catalogue.exchange.croissant import DESCRIPTION
from failuremap.catalogue.exchange.tiers import Holdings, Tier, canary_line

_WHAT: dict[Tier, str] = {
    "open": "all but the repair, its run and its harness; `member_only.commitments` stands for each of these",
    "member": "everything, the repair included",
    "sealed": "everything, the families that are held back included",
}
_FILES = {
    "cases.jsonl": "the cases, one JSON object a line, whose `sha256` is the digest of its open form",
    "cases.parquet": "the same as a table: texts and numbers as such, all else as JSON text",
    "held-back.jsonl": "the cases of the families that are held back",
    "held-back.parquet": "the same as a table",
    "contracts.jsonl": "the contracts of the families that are held back, and nothing else of them",
    "croissant.json": "the files and their columns, as Croissant 1.0",
    "bundles": "each case as a zip: scripts, record, contract, and the command that runs them again",
    "failure-map": "each case in the form of the Failure Map's own records",
    "SHA256SUMS": "what `sha256sum --check` reads",
}


def card(held: Holdings, names: Collection[str], version: str) -> str:
    """Writes README.md for the files of one tier."""
    there = {name.partition("/")[0] for name in names} | {"SHA256SUMS"}
    files = "\n".join(f"| `{name}` | {what} |" for name, what in _FILES.items() if name in there)
    families = {case.family for case in (*held.cases, *held.held_back)}
    return f"""{_header(held, there)}
# Failure Map, tier {held.tier}

{DESCRIPTION} A case is one variant, N = 1 to 5, of one family.

The tier `{held.tier}` has {_WHAT[held.tier]}. Version {version}: {len(held.cases)} cases that are not held back, \
{len(held.held_back) or len(held.contracts)} {"cases" if held.held_back else "contracts"} that are; \
{len(families)} families.

| file | what it holds |
| --- | --- |
{files}

## Use

The variants of a family share one contract and one repair: count a family once. Families of one `evaluation_group` tell
of one another: keep a group in one split. The split is a keyed hash of the group, so that a new release moves none.

The scripts are deterministic models of one fault each, not incidents; `limitations` says what each leaves out. Check a
record, or run its scripts again, with `failuremap import FILE`.

{canary_line(held.tier)}
"""


def _header(held: Holdings, there: Collection[str]) -> str:
    """Writes the YAML header; its strings are quoted as JSON has them, which YAML reads alike."""
    lines = [
        "---",
        "license: cc0-1.0",
        "language:",
        "- en",
        "- code",
        f"pretty_name: {json.dumps(f'Failure Map, tier {held.tier}')}",
        "tags:",
        "- distributed-training",
        "- gradient-accumulation",
        "- debugging",
        "- croissant",
        "size_categories:",
        f"- {'n<1K' if len(held.cases) + len(held.held_back) < 1000 else '1K<n<10K'}",
        "configs:",
        *_configs(held.tier, there),
        "---",
    ]
    return "\n".join(lines)


def _configs(tier: Tier, there: Collection[str]) -> list[str]:
    """Lists the tables: those of the cases by their split, and the contracts apart."""
    ending = "parquet" if "cases.parquet" in there else "jsonl"
    splits = {"open_access": f"cases.{ending}", "held_back": f"held-back.{ending}"}
    lines = [f"- config_name: {tier}", "  default: true", "  data_files:"]
    for split, name in splits.items():
        lines += [f"  - split: {split}", f"    path: {name}"] if name in there else []
    if "contracts.jsonl" in there:
        lines += ["- config_name: contracts", "  data_files:", "  - split: held_back", "    path: contracts.jsonl"]
    return lines
