"""The cases of a release: those of the catalogue, each in its split, with the canaries of its tiers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from failuremap.catalogue.exchange.splits import check_splits, split_of, standing_of
from failuremap.catalogue.exchange.tiers import edition_of
from failuremap.catalogue.mechanism import VARIANTS, Mechanism
from failuremap.catalogue.recording import read_recordings
from failuremap.catalogue.records.build import build_case
from failuremap.catalogue.records.model import Case
from failuremap.catalogue.shelf import mechanism, mechanisms
from failuremap.errors import InvalidArgument


def released_cases(slugs: Collection[str] = ()) -> list[Case]:
    """Makes the member forms of the cases of mechanisms that have code, by slug and variant.

    A family that is not held back names none that is: not even the slug of one is told.

    Args:
        slugs: The mechanisms; all that have code where none is given.

    Raises:
        InvalidArgument: A slug names no mechanism, or one without code.
        RecordError: The recorded runs are not those of the scripts, or one split tells of another.
    """
    with_code = [entry for entry in mechanisms().values() if entry.stages]
    entries = [_with_code(slug) for slug in slugs] or with_code
    check_splits(map(standing_of, with_code))
    return [case for entry in entries for case in _cases_of(entry)]


def _with_code(slug: str) -> Mechanism:
    entry = mechanism(slug)
    if entry.stages is None:
        raise InvalidArgument(f"slug={slug!r} is an entry without code; there is no case of it to export.")
    return entry


def _cases_of(entry: Mechanism) -> list[Case]:
    edition = edition_of(entry.group)
    told = replace(entry, related=tuple(slug for slug in entry.related if _may_name(entry, slug)))
    recordings = read_recordings(entry.slug)
    return [build_case(told, variant, recordings, edition) for variant in VARIANTS]


def _may_name(entry: Mechanism, slug: str) -> bool:
    """True unless an open family would name one that is held back."""
    return split_of(entry.group) == "held-back" or split_of(mechanism(slug).group) == "open-access"
