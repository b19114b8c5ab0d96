"""A script in a fresh, isolated interpreter -> what it observed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

_TIME_LIMIT_S = 30.0


@dataclass(frozen=True)
class Observation:
    """What one check gave."""

    check: str
    actual: Any
    expected: Any
    passed: bool


@dataclass(frozen=True)
class Run:
    """What one run of a script gave."""

    exit_code: int | None
    """None where the script was stopped at its time limit."""
    observations: tuple[Observation, ...]
    stdout: str
    stderr: str

    @property
    def failed_checks(self) -> list[str]:
        """Names the checks that failed."""
        return [seen.check for seen in self.observations if not seen.passed]


def run(script: str, *, time_limit_s: float = _TIME_LIMIT_S) -> Run:
    """Runs a script's text by this Python, without site packages, environment or working directory on its path.

    Example:
        >>> run("raise SystemExit(3)").exit_code
        3
    """
    command = [sys.executable, "-I", "-S", "-c", script]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=time_limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Run(None, (), "", f"stopped after {time_limit_s:g} s")
    return Run(done.returncode, _observations(done.stdout), done.stdout, done.stderr)


def _observations(stdout: str) -> tuple[Observation, ...]:
    """Reads the report; a script that printed something else observed nothing."""
    try:
        return tuple(Observation(**seen) for seen in json.loads(stdout)["observations"])
    except (ValueError, KeyError, TypeError):
        return ()
