"""The pages about the site itself: how it is verified, its licence, what is held back; and the one for no page."""

from __future__ import annotations

from collections.abc import Iterator

from failuremap.site import addresses
from failuremap.site.frame import Frame
from failuremap.site.pages.mechanism import as_json


def pages(frame: Frame) -> Iterator[tuple[str, str]]:
    """Yields these pages, and the contracts that are held back as JSON."""
    yield addresses.ABOUT, frame.page(addresses.ABOUT, "about.html")
    yield addresses.HELD_BACK, frame.page(addresses.HELD_BACK, "held_back.html")
    yield addresses.json_of(addresses.HELD_BACK), as_json(list(frame.content.contracts))
    yield addresses.NOT_FOUND, frame.page(addresses.NOT_FOUND, "not_found.html", link=frame.link_from_anywhere)
