"""Score: a candidate repair -> a verdict. The candidate runs in a box; fixtures and answers stay outside it."""

from failuremap.score.judge import judge
from failuremap.score.limits import Limits
from failuremap.score.stopped import Stopped
from failuremap.score.verdict import Verdict

__all__ = ["Limits", "Stopped", "Verdict", "judge"]
