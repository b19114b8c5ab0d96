"""The page that leads from what was seen to a mechanism, with the tables by which it does so."""

from __future__ import annotations

import json
from collections.abc import Iterator

from failuremap.site import addresses, matching
from failuremap.site.frame import Frame

TABLE = "assets/match-table.js"


def pages(frame: Frame) -> Iterator[tuple[str, str]]:
    """Yields the page, and its tables as a script, which a page from a disk may load where it may not fetch."""
    families = frame.content.families
    yield (
        addresses.SYMPTOMS,
        frame.page(
            addresses.SYMPTOMS,
            "symptom.html",
            topics=matching.topics(families),
            rules=matching.rule_questions(families),
            unseen=matching.unseen(families),
        ),
    )
    yield TABLE, f"failuremapTable = {json.dumps(matching.table(families), separators=(',', ':'))};\n"
