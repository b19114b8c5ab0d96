"""The exception by which a box tells the judge that there will be no further answer."""

from __future__ import annotations

from typing import Literal

from failuremap.errors import FailuremapError

Outcome = Literal["crashed", "timeout", "memory", "output", "malformed", "judge-error"]
"""Why a candidate gave no answer; `judge-error` is never its own fault."""


class Stopped(FailuremapError):
    """A candidate gave no answer; `outcome` says how in a word, `reason` in a sentence that tells nothing of the input.

    Example:
        >>> Stopped("timeout", "solve was still running after cpu_s=5").outcome
        'timeout'
    """

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason
