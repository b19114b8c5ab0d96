"""The index of the search, as a script: a page from a disk may load one where it may not fetch a file."""

from __future__ import annotations

import json
from collections.abc import Iterator

from failuremap.site.frame import Frame
from failuremap.site.search import index

INDEX = "assets/search-index.js"


def pages(frame: Frame) -> Iterator[tuple[str, str]]:
    """Yields the index."""
    made = json.dumps(index(frame.content.families), separators=(",", ":"), ensure_ascii=False)
    yield INDEX, f"failuremapIndex = {made};\n"
