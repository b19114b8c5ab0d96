"""The cases of a release: those of the catalogue, each in its split, with the canaries of its tiers."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any

from failuremap.catalogue.exchange.splits import check_splits, split_of, standing_of
from failuremap.catalogue.exchange.tiers import edition_of
from failuremap.catalogue.mechanism import VARIANTS, Mechanism
from failuremap.catalogue.recording import read_recordings
from failuremap.catalogue.records.build import build_case
from failuremap.catalogue.records.digest import PUBLISHED_KEY
from failuremap.catalogue.records.model import Case
from failuremap.catalogue.shelf import case_of, mechanism, mechanisms
from failuremap.errors import InvalidArgument, RecordError

_OTHER = "another mechanism"


def released_cases(names: Collection[str] = (), key: bytes = PUBLISHED_KEY) -> list[Case]:
    """Makes the member forms of cases, in the order of their slugs and variants.

    A family that is not held back names none that is, as related or in a text: not even the slug of one is told.

    Args:
        names: Mechanisms or cases, by slug, id or alias; all that have code where none is given.
        key: Key of the salts. With the published one a withheld value that is guessed can be confirmed.

    Raises:
        InvalidArgument: A name is that of nothing, or of an entry without code.
        RecordError: The recorded runs are not those of the scripts, or one split tells of another.
    """
    with_code = [entry for entry in mechanisms().values() if entry.stages]
    check_splits(map(standing_of, with_code))
    wanted = {pair for name in names or [entry.slug for entry in with_code] for pair in _cases_named(name)}
    return [_case(mechanism(slug), variant, key) for slug, variant in sorted(wanted)]


def _cases_named(name: str) -> list[tuple[str, int]]:
    entry, variant = case_of(name)
    if entry.stages is None:
        raise InvalidArgument(f"slug={entry.slug!r} is an entry without code; there is no case of it to export.")
    return [(entry.slug, one) for one in ([variant] if variant else VARIANTS)]


def _case(entry: Mechanism, variant: int, key: bytes) -> Case:
    told = replace(entry, related=tuple(slug for slug in entry.related if _may_name(entry, slug)), **_texts(entry))
    return build_case(told, variant, read_recordings(entry.slug), edition_of(entry.group, key))


def _texts(entry: Mechanism) -> dict[str, Any]:
    """Returns the texts of an entry in which the slug of a family stands that it may not name, without that slug."""
    unnamed = [slug for slug in mechanisms() if not _may_name(entry, slug)]
    if not unnamed:
        return {}
    slugs = re.compile(rf"(?<![\w-])({'|'.join(unnamed)})(?![\w-])")
    texts = {one.name: getattr(entry, one.name) for one in fields(entry)}
    return {name: slugs.sub(_OTHER, text) for name, text in texts.items() if isinstance(text, str)}


def _may_name(entry: Mechanism, slug: str) -> bool:
    """True unless an open family would name one that is held back."""
    if slug not in mechanisms():
        raise RecordError(f"slug={entry.slug!r}: related={slug!r} names no mechanism of the catalogue.")
    return split_of(entry.group) == "held-back" or split_of(mechanisms()[slug].group) == "open-access"
