"""Score: a candidate repair -> a verdict. The candidate runs in a box; fixtures and answers stay outside it."""

from failuremap.score.limits import Limits
from failuremap.score.stopped import Stopped

__all__ = ["Limits", "Stopped"]
