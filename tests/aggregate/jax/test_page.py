"""The loop that docs/jax.md shows trains the same weights on any number of devices."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.jax

PAGE = Path(__file__).parents[3] / "docs" / "jax.md"


def weights_of(program: str, device_count: int) -> list[float]:
    """Run a program on devices of one process and return the list that it prints."""
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={device_count}", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, env={**os.environ, **flags}
    )
    assert run.returncode == 0, run.stderr
    weights: list[float] = json.loads(run.stdout)
    return weights


@pytest.fixture(scope="module")
def program() -> str:
    """The page's code."""
    return "\n".join(re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def right(program: str) -> list[float]:
    """The weights that one device trains."""
    return weights_of(program, 1)


def test_the_page_s_loop_does_not_depend_on_the_number_of_devices(program: str, right: list[float]) -> None:
    assert weights_of(program, 8) == pytest.approx(right, rel=1e-5)


def test_negative_control_with_a_mean_of_the_devices_it_does(program: str, right: list[float]) -> None:
    unweighted = program.replace("(grads, mask.sum(),", "(grads, (mask.sum() > 0).astype(int),")

    assert weights_of(unweighted, 8) != pytest.approx(right, rel=1e-3)
