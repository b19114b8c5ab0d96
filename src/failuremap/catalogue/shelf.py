"""Finds the mechanisms: a file in `mechanisms/` is an entry; there is no list to edit."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from dataclasses import fields, replace
from functools import cache
from types import ModuleType

from failuremap.catalogue import mechanisms as shelf  # here: later the package's name is that of the function
from failuremap.catalogue.mechanism import Mechanism, Stages
from failuremap.errors import InvalidArgument


@cache
def mechanisms() -> dict[str, Mechanism]:
    """Loads all mechanisms: slug -> entry, in the order of their slugs."""
    names = sorted(module.name for module in pkgutil.iter_modules(shelf.__path__))
    entries = [_load(importlib.import_module(f"{shelf.__name__}.{name}")) for name in names]
    return {entry.slug: entry for entry in entries}


def mechanism(slug: str) -> Mechanism:
    """Returns the mechanism of this slug.

    Raises:
        InvalidArgument: There is none; the message names those that are spelled alike.

    Example:
        >>> mechanism("partials-averaged").alias
        'FA-99246'
    """
    known = mechanisms()
    if slug in known:
        return known[slug]
    close = difflib.get_close_matches(slug.lower().replace("_", "-"), known, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(close)}?" if close else "`failuremap list` shows all of them."
    raise InvalidArgument(f"slug={slug!r} names no mechanism of the catalogue; {advice}")


def _load(module: ModuleType) -> Mechanism:
    """Takes the entry of one file, with its code where it has some."""
    entry: Mechanism = module.MECHANISM
    if not hasattr(module, "broken"):
        return entry
    code = {part.name: getattr(module, part.name) for part in fields(Stages) if hasattr(module, part.name)}
    return replace(entry, stages=Stages(**code))
