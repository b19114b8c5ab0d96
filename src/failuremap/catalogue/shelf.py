"""Finds the mechanisms: a file in `mechanisms/` is an entry; there is no list to edit."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
from dataclasses import fields, replace
from functools import cache
from types import ModuleType

from failuremap.catalogue import mechanisms as shelf  # here: later the package's name is that of the function
from failuremap.catalogue.mechanism import VARIANTS, Mechanism, Stages
from failuremap.errors import InvalidArgument


@cache
def mechanisms() -> dict[str, Mechanism]:
    """Loads all mechanisms: slug -> entry, in the order of their slugs."""
    names = sorted(module.name for module in pkgutil.iter_modules(shelf.__path__))
    entries = [_load(importlib.import_module(f"{shelf.__name__}.{name}")) for name in names]
    return {entry.slug: entry for entry in entries}


def mechanism(name: str) -> Mechanism:
    """Returns the mechanism of this slug, or that of a case's id or alias.

    Raises:
        InvalidArgument: There is none; the message names those that are spelled alike.

    Example:
        >>> mechanism("partials-averaged").alias
        'FA-99246'
    """
    return case_of(name)[0]


def case_of(name: str) -> tuple[Mechanism, int | None]:
    """Returns the mechanism that a slug, a number, a case's id or an alias names, and the variant that it names.

    Raises:
        InvalidArgument: The name is that of no mechanism and no case.

    Example:
        >>> entry, variant = case_of("FM-001-3")
        >>> entry.slug, variant
        ('replica-means-ignore-counts', 3)
    """
    known = mechanisms()
    if name in known:
        return known[name], None
    if name.upper() in _cases():
        return _cases()[name.upper()]
    if re.fullmatch(r"[A-Za-z]{2}-[\d-]+", name):
        raise InvalidArgument(f"case={name!r} names no case of the catalogue; `failuremap list` shows their numbers.")
    close = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(close)}?" if close else "`failuremap list` shows all of them."
    raise InvalidArgument(f"slug={name!r} names no mechanism of the catalogue; {advice}")


def case_id(entry: Mechanism, variant: int) -> str:
    """Returns the permanent id of a case: FM, the mechanism's number, N.

    Raises:
        InvalidArgument: The mechanism has no number yet.

    Example:
        >>> case_id(mechanism("replica-means-ignore-counts"), 3)
        'FM-001-3'
    """
    if entry.number < 1:
        raise InvalidArgument(f"slug={entry.slug!r} has number={entry.number}; a case needs a number of 1 or more.")
    return f"FM-{entry.number:03d}-{variant}"


@cache
def _cases() -> dict[str, tuple[Mechanism, int | None]]:
    numbered = [entry for entry in mechanisms().values() if entry.number]
    own = {case_id(entry, variant): (entry, variant) for entry in numbered for variant in VARIANTS}
    whole = {f"FM-{entry.number:03d}": (entry, None) for entry in numbered}
    return {**own, **whole, **{entry.alias: (entry, 1) for entry in mechanisms().values() if entry.alias}}


def _load(module: ModuleType) -> Mechanism:
    """Takes the entry of one file, with its code where it has some."""
    entry: Mechanism = module.MECHANISM
    if not hasattr(module, "broken"):
        return entry
    code = {part.name: getattr(module, part.name) for part in fields(Stages) if hasattr(module, part.name)}
    return replace(entry, stages=Stages(**code))
