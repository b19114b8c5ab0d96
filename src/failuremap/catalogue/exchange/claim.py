"""One claim of a record: what is said, what it is worth, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from failuremap.catalogue.records.plain import clipped

Result = Literal["holds", "fails", "cannot be checked"]


@dataclass(frozen=True)
class Claim:
    """One thing that a record says, and what it is worth."""

    claim: str
    result: Result
    reason: str


def claim_of(claim: str, problem: str, otherwise: str) -> Claim:
    """Makes a claim that fails where there is a problem.

    Example:
        >>> claim_of("checks", "", "there are 7").result
        'holds'
    """
    return Claim(claim, "fails" if problem else "holds", clipped(problem or otherwise))
