"""The data set as Croissant 1.0: JSON-LD that says which files there are, and what stands in their columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from failuremap.catalogue.exchange.tables import column_kinds
from failuremap.catalogue.exchange.tiers import Holdings, canary_line
from failuremap.catalogue.records.model import Case

LICENSE_URL = "https://creativecommons.org/publicdomain/zero/1.0/"
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_TYPES = {"text": "sc:Text", "number": "sc:Integer"}
_DAYS = ("published", "modified")
DESCRIPTION = (
    "Known ways in which training jobs add up gradients wrongly. Each case is a script that fails, a repair that fails "
    "as well, and their recorded checks."
)


def croissant(held: Holdings, files: Mapping[str, bytes], version: str) -> str:
    """Writes croissant.json for the JSON lines among the files of one tier."""
    tables = {"cases.jsonl": held.cases, "held-back.jsonl": held.held_back}
    days = [case.modified for cases in tables.values() for case in cases]
    document: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": f"failuremap-{held.tier}",
        "description": f"{DESCRIPTION} {canary_line(held.tier)}",
        "version": version,
        "citeAs": f"failuremap {version}, tier {held.tier}",
        "license": LICENSE_URL,
        **({"datePublished": max(days)} if days else {}),
        "distribution": [_file(name, files[name]) for name in files if name.endswith(".jsonl")],
        "recordSet": [_record_set(name, tables[name]) for name in tables if name in files],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _file(name: str, content: bytes) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "encodingFormat": "application/jsonlines",
        "contentSize": f"{len(content)} B",
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _record_set(name: str, cases: Sequence[Case]) -> dict[str, Any]:
    """Describes the columns that hold a text or a number; the others are objects, to be read as JSON."""
    table = name.removesuffix(".jsonl")
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{table}/{column}",
            "name": column,
            "dataType": "sc:Date" if column in _DAYS else _TYPES[kind],
            "source": {"fileObject": {"@id": name}, "extract": {"column": column}},
        }
        for column, kind in column_kinds(cases).items()
        if kind in _TYPES
    ]
    return {"@type": "cr:RecordSet", "@id": table, "name": table, "key": {"@id": f"{table}/id"}, "field": fields}
