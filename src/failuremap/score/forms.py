"""The forms of a mechanism as candidates: what is broken, what was tried, and what repairs it."""

from __future__ import annotations

from failuremap.catalogue.mechanism import Mechanism, Stage
from failuremap.catalogue.render import source_of


def candidate_of(entry: Mechanism, stage: Stage = "fixed") -> str:
    """Returns one form of a mechanism as the text of a candidate.

    Example:
        >>> from failuremap.catalogue import mechanism
        >>> print(candidate_of(mechanism("partials-averaged")))
        def solve(parts):
            return [sum(v[j] for v in parts) for j in range(len(parts[0]))] if parts else []
        <BLANKLINE>
    """
    assert entry.stages is not None
    return source_of(entry.stages.function(stage)).replace(f"def {stage}(", "def solve(", 1)
