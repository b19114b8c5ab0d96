"""Candidates that try to get out of the box, and how the judge knows whether one has."""

from __future__ import annotations

from failuremap.score.selftest.escapes.attempt import Attempt, attempt
from failuremap.score.selftest.escapes.escape import Escape
from failuremap.score.selftest.escapes.files import FILES
from failuremap.score.selftest.escapes.forged import FORGED
from failuremap.score.selftest.escapes.inside import INSIDE
from failuremap.score.selftest.escapes.kernel import KERNEL
from failuremap.score.selftest.escapes.network import NETWORK
from failuremap.score.selftest.escapes.processes import PROCESSES
from failuremap.score.selftest.escapes.resources import RESOURCES

ESCAPES = (*FILES, *NETWORK, *PROCESSES, *KERNEL, *INSIDE, *FORGED, *RESOURCES)
"""Every escape that is tried."""

__all__ = ["ESCAPES", "Attempt", "Escape", "attempt"]
