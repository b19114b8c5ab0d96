"""The start page."""

from __future__ import annotations

from collections.abc import Iterator

from failuremap.site import addresses
from failuremap.site.frame import Frame


def pages(frame: Frame) -> Iterator[tuple[str, str]]:
    """Yields the start page."""
    yield addresses.START, frame.page(addresses.START, "start.html")
