"""JAX keeps the laws of aggregation, over devices and over micro-batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.jax, pytest.mark.slow]

JOB = Path(__file__).parents[1] / "jobs" / "jax_conformance.py"


def printed_by(*args: str) -> Any:
    """Run the job on four devices and return what it prints."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(JOB), *args]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **flags})
    assert run.returncode == 0, run.stderr[-4000:]
    return json.loads(run.stdout)


def test_all_laws_hold() -> None:
    held = printed_by()

    assert len(held["devices"]) == 10
    assert min(held["devices"].values()) > 0
    assert set(held["micro-batches"]) == set(held["devices"])


def test_negative_control_a_rule_without_its_counts_breaks_them() -> None:
    said = printed_by("wrong")

    assert "unequal counts" in said
