"""Runs the audited script as it is, on one or several ranks, and leaves no process behind."""

from failuremap.audit.launch.ending import Ending
from failuremap.audit.launch.job import Job
from failuremap.audit.launch.supervise import run

__all__ = ["Ending", "Job", "run"]
