"""The page of each case, its record beside it, its bundle, and the ways there from other names of it."""

from __future__ import annotations

from collections.abc import Iterator

from failuremap.catalogue.exchange.bundle import bundle
from failuremap.site import addresses
from failuremap.site.frame import Frame
from failuremap.site.record import Record


def pages(frame: Frame) -> Iterator[tuple[str, str | bytes]]:
    """Yields page, JSON and bundle of each case, and a page that leads on for each other name."""
    for family in frame.content.families.values():
        for case in family.cases:
            path = addresses.case_page(case.id)
            yield path, frame.page(path, "mechanism.html", record=Record(family, [case]))
            yield addresses.json_of(path), family.records[case.id]
            yield addresses.bundle_file(case.id), bundle(case, frame.content.tier)
            for alias in case.aliases:
                yield _leading_on(frame, alias, case.title, path)
        yield _leading_on(frame, family.number, family.title, addresses.mechanism_page(family.slug))


def _leading_on(frame: Frame, name: str, title: str, target: str) -> tuple[str, str]:
    path = addresses.case_page(name)
    return path, frame.page(path, "leads_on.html", name=name, title=title, target=target)
