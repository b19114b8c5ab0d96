"""A record to plant faults in, as plain JSON: the first seed's, built from the mechanism and its recorded runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

from failuremap.catalogue import mechanism
from failuremap.catalogue.recording import read_recordings
from failuremap.catalogue.records.build import Edition, build_case, sign
from failuremap.catalogue.records.digest import sha256_text

SLUG = "replica-means-ignore-counts"


@cache
def _built() -> dict[str, Any]:
    return build_case(mechanism(SLUG), 1, read_recordings(SLUG)).document()


def member_document() -> dict[str, Any]:
    """Return a record in its member form, to be changed at will."""
    return copy.deepcopy(_built())


def changed(change: Callable[[dict[str, Any]], Any], *, signed: bool = True) -> dict[str, Any]:
    """Return the record after a change, with commitments and digest that fit it unless `signed` is false."""
    document = member_document()
    change(document)
    return sign(document, Edition()) if signed else document


def script_of(source: str) -> dict[str, str]:
    """Return an implementation as a record holds it."""
    return {"sha256": sha256_text(source), "source": source}
