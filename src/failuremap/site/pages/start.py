"""The start page, with what an audit said of a script of the examples.

That verdict is recorded by:

failuremap audit --nproc 4 --json src/failuremap/site/pages/recorded/start.json -- examples/ddp_counts_ignored.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from failuremap.audit.model import Verdict
from failuremap.site import addresses
from failuremap.site.frame import Frame
from failuremap.site.picture import picture

RANK_COUNT = 4
SCRIPT = "examples/ddp_counts_ignored.py"
_RECORDED = Path(__file__).parent / "recorded" / "start.json"


def recorded_verdict() -> Verdict:
    """Returns what the audit said.

    Example:
        >>> recorded_verdict().sentence
        'A token on rank 0 weighs 3.00 times a token on rank 3.'
    """
    return Verdict.model_validate_json(_RECORDED.read_text(encoding="utf-8"))


def pages(frame: Frame) -> Iterator[tuple[str, str]]:
    """Yields the start page."""
    verdict = recorded_verdict()
    path = addresses.START
    named = next(iter(verdict.findings[0].candidates)).slug
    family = frame.content.families.get(named)
    yield (
        path,
        frame.page(
            path, "start.html", verdict=verdict, picture=picture(verdict, "start"), family=family, ranks=RANK_COUNT
        ),
    )
