"""The examples are ordinary training scripts: they run by themselves, know nothing of the audit, and learn."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
DEMO = FOLDER / "demo.sh"


def losses_of(script: Path, *options: str) -> list[float]:
    """Run a script on two ranks and return the losses that it prints."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    run = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", run.stdout)]


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_knows_nothing_of_the_audit(script):
    assert "failuremap" not in script.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_learns(script):
    losses = losses_of(script, "--steps", "6", "--seed", "1")

    assert len(losses) == 6
    assert losses[-1] < losses[0] - 1


def test_the_demo_does_not_take_a_crash_for_a_verdict(tmp_path):
    crashing = tmp_path / "failuremap"
    crashing.write_text("#!/bin/sh\nexit 1\n")
    crashing.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    run = subprocess.run(["bash", str(DEMO)], capture_output=True, text=True, env=environment)

    assert run.returncode == 1
    assert "expected the verdict 'wrong' and exit code 1" in run.stderr


@pytest.mark.slow
@pytest.mark.torch
def test_the_demo_tells_the_wrong_job_from_the_repaired_one():
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    run = subprocess.run(["bash", str(DEMO)], capture_output=True, text=True, env=environment)

    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.index("✗ wrong") < run.stdout.index("✓ right")
