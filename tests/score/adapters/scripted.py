"""What a scripted model answers: the repair, the broken form, garbage, in turn over the families."""

from __future__ import annotations

from failuremap.catalogue import mechanisms
from failuremap.score.forms import candidate_of
from failuremap.score.suite import families

ANSWERS = ("repair", "broken", "garbage")


def answers(suite: str) -> dict[str, tuple[str, str]]:
    """Return family -> (what kind of answer, its text)."""
    return {slug: (kind := ANSWERS[place % 3], text(slug, kind)) for place, slug in enumerate(families(suite))}


def text(slug: str, kind: str) -> str:
    if kind == "garbage":
        return "I am sorry, I cannot answer in a block of Python today.\n"
    code = candidate_of(mechanisms()[slug], "fixed" if kind == "repair" else "broken")
    return f"Here is the file:\n\n```python\n{code}```\n\nIt keeps the contract."
