"""The page of each mechanism, and the list of all."""

from __future__ import annotations

from collections.abc import Iterator

from failuremap.site import addresses
from failuremap.site.frame import Frame


def pages(frame: Frame) -> Iterator[tuple[str, str]]:
    """Yields the list of all mechanisms, and a page for each."""
    yield addresses.MECHANISMS, frame.page(addresses.MECHANISMS, "mechanisms.html")
    for family in frame.content.families.values():
        path = addresses.mechanism_page(family.slug)
        yield path, frame.page(path, "mechanism.html", family=family)
