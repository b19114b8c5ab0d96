"""Runs the scripts of `tests/aggregate/jobs` on real ranks, and reads what the ranks print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audit.harness import JobServer

JOBS = Path(__file__).parents[1] / "jobs"


def answers(server: JobServer, script: str, args: Sequence[str], ranks: int) -> list[dict[str, Any]]:
    """Return the JSON lines of all ranks; the job must end well."""
    result = server.run_job(str(JOBS / script), args, ranks)
    assert result.ok, f"{script} {args} on {ranks} ranks: exit codes {result.exit_codes}\n{result.output[-6000:]}"
    return [json.loads(line) for line in result.output.splitlines() if line.startswith("{")]
