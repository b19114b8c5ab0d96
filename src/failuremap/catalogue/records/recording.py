"""What the run of one script gave, as it is kept: enough to notice when a re-run gives something else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recording:
    """One recorded run of one stage and variant."""

    sha256: str
    """That of the script."""
    exit_code: int
    stdout: str
    stderr: str
