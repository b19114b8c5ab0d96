"""The page of each mechanism with all its variants, the same as JSON, and the list of all mechanisms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from failuremap.site import addresses
from failuremap.site.content import Content, Family
from failuremap.site.frame import Frame
from failuremap.site.record import Record


def pages(frame: Frame) -> Iterator[tuple[str, str]]:
    """Yields the list of all mechanisms, and the page and the JSON of each."""
    content = frame.content
    yield addresses.MECHANISMS, frame.page(addresses.MECHANISMS, "mechanisms.html")
    listed = {"mechanisms": [summary(family) for family in content.families.values()], "canary": content.canary}
    yield addresses.json_of(addresses.MECHANISMS), as_json(listed)
    for family in content.families.values():
        path = addresses.mechanism_page(family.slug)
        record = Record(family, family.cases, is_whole=True)
        yield path, frame.page(path, "mechanism.html", record=record)
        yield addresses.json_of(path), as_json(mechanism_document(family, content))


def summary(family: Family) -> dict[str, Any]:
    """Returns what a list says of a family."""
    first = family.first
    return {
        "number": family.number,
        "slug": family.slug,
        "title": family.title,
        "abstract": first.abstract,
        "category": first.category,
        "evaluation_group": first.evaluation_group,
        "modified": first.modified,
        "cases": [case.id for case in family.cases],
    }


def mechanism_document(family: Family, content: Content) -> dict[str, Any]:
    """Returns what is the same in all cases of a family, and each case's id, N, aliases and digest."""
    first = family.first.document()
    own = {"id", "aliases", "title", "variant", "checks", "implementations", "verification", "harness", "sha256"}
    shared = {name: value for name, value in first.items() if name not in own | {"member_only", "canary"}}
    cases = [
        {"id": case.id, "variant": case.variant, "aliases": list(case.aliases), "sha256": case.sha256}
        for case in family.cases
    ]
    return {
        "number": family.number,
        "title": family.title,
        **shared,
        "cases": cases,
        "canary": content.canary,
    }


def as_json(document: Any) -> str:
    """Writes a document as the records are written."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
