"""JAX: gradients of devices are combined by the rule, and what was summed already is refused while it traces."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import failuremap
from audit.harness import JobServer

pytestmark = pytest.mark.jax

JOBS = Path(__file__).parents[1] / "jobs"
DTYPES = ("float16", "bfloat16", "float32", "float64")
COUNTS = {"unequal on 2": [1, 3], "unequal on 4": [7, 1, 2, 1000], "zero on one": [2, 0, 5], "one device": [3]}
CASES = [
    {"rule": rule, "dtype": dtype, "counts": counts}
    for dtype in DTYPES
    for counts in COUNTS.values()
    for rule in ("weighted_mean", "sum", "mean")
]
NAN_WITHOUT_UNITS = {"counts": [1, 0, 1], "gradients": [[1.0, 2.0], [math.nan, math.inf], [4.0, 6.0]]}
NO_UNITS = {"counts": [0, 0], "gradients": [[1.0], [math.nan]]}
NEGATIVE = {"counts": [3, -1], "gradients": [[1.0], [2.0]]}
TOO_MANY = {"counts": [2**62, 2**62], "gradients": [[1.0], [2.0]]}
BEYOND_HALF = {"counts": [1, 1], "gradients": [[40000.0], [40000.0]], "rule": "mean", "dtype": "float16"}
SPECIAL = [NAN_WITHOUT_UNITS, NO_UNITS, NEGATIVE, TOO_MANY, BEYOND_HALF]


def filled(case: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """Return a case with numbers, those of its dtype."""
    whole = {"rule": "weighted_mean", "dtype": "float32", **case}
    if "gradients" not in whole:
        values_KD = np.random.default_rng(seed).normal(size=(len(case["counts"]), 5))
        rounded_KD = values_KD.astype(dtype_of(case)).astype(np.float64)
        whole["gradients"] = rounded_KD.tolist()
    return whole


def dtype_of(case: dict[str, Any]) -> Any:
    """Return the NumPy dtype of a case; bfloat16 is that of a package that JAX needs."""
    import ml_dtypes

    return ml_dtypes.bfloat16 if case["dtype"] == "bfloat16" else np.dtype(case["dtype"])


def run_on_devices(script: str, text: str = "") -> Any:
    """Run a script of ../jobs with four devices and return what it prints."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(JOBS / script)]
    run = subprocess.run(command, input=text, capture_output=True, text=True, env={**os.environ, **flags})
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def results() -> list[dict[str, Any]]:
    """What the devices make of all cases, in their order."""
    answer: list[dict[str, Any]] = run_on_devices("jax_devices.py", json.dumps([filled(c) for c in CASES + SPECIAL]))
    return answer


def result_of(results: list[dict[str, Any]], case: dict[str, Any]) -> dict[str, Any]:
    """Return what the devices made of a case."""
    return results[(CASES + SPECIAL).index(case)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['rule']}-{case['dtype']}-{case['counts']}")
def test_devices_are_combined_by_the_rule(results: list[dict[str, Any]], case: dict[str, Any]) -> None:
    got, errors = result_of(results, case), []

    assert got["total"] == (sum(case["counts"]) if case["rule"] == "weighted_mean" else -1)
    for value, exact, allowed in zip(got["values"], *expected(filled(case)), strict=True):
        errors.append(abs(Fraction(value) - exact) / allowed)
    assert max(errors) <= 1, errors


def expected(case: dict[str, Any]) -> tuple[list[Fraction], list[Fraction]]:
    """Return the exact result of a case, and how far rounding may move it.

    Each product, each addition and the division round once to float32 (float64 for float64), and the result once to
    its own dtype.
    """
    import ml_dtypes

    rows = [[Fraction(value) for value in row] for row in case["gradients"]]
    counts = case["counts"] if case["rule"] == "weighted_mean" else None
    exact = failuremap.aggregate(rows, counts, rule=case["rule"])
    sizes = failuremap.aggregate([[abs(value) for value in row] for row in rows], counts, rule=case["rule"])
    sums = Fraction(len(rows) + 1, 2**53 if case["dtype"] == "float64" else 2**24)
    own = Fraction(float(ml_dtypes.finfo(dtype_of(case)).eps)) / 2
    return exact, [size * sums + (abs(value) + size * sums) * own for value, size in zip(exact, sizes, strict=True)]


def test_negative_control_the_mean_of_all_devices_is_not_within_the_rounding_of_the_weighted_one() -> None:
    case = filled({"rule": "weighted_mean", "dtype": "bfloat16", "counts": [1, 3]})
    exact, allowed = expected(case)
    mean, _ = expected({**case, "rule": "mean"})

    assert all(abs(other - value) > 2 * most for other, value, most in zip(mean, exact, allowed, strict=True))


def test_a_device_without_units_contributes_nothing_not_even_a_nan(results: list[dict[str, Any]]) -> None:
    assert result_of(results, NAN_WITHOUT_UNITS) == {"values": [2.5, 4.0], "total": 2}


def test_without_any_unit_the_mean_is_zeros_and_the_total_says_so(results: list[dict[str, Any]]) -> None:
    assert result_of(results, NO_UNITS) == {"values": [0.0], "total": 0}


@pytest.mark.parametrize("case", [NEGATIVE, TOO_MANY], ids=["negative", "total beyond the integers"])
def test_a_count_that_tracing_cannot_refuse_makes_the_result_nan(
    results: list[dict[str, Any]], case: dict[str, Any]
) -> None:
    got = result_of(results, case)

    assert math.isnan(got["values"][0])
    assert got["total"] == -1


def test_half_precision_is_summed_in_float32(results: list[dict[str, Any]]) -> None:
    assert result_of(results, BEYOND_HALF)["values"] == [40000.0]


def test_real_processes_get_the_weighted_mean(job_server: JobServer) -> None:
    job = job_server.run_job(str(JOBS / "jax_processes.py"), [], 2)

    assert job.ok, job.output
    (line,) = [line for line in job.output.splitlines() if line.startswith("{")]
    assert json.loads(line) == {
        "unequal": {"values": [2.5, math.inf], "total": 4},
        "zero": {"values": [1.0, 2.0], "total": 2},
        "none": {"values": [0.0, 0.0], "total": 0},
    }


def test_negative_control_the_old_habits_give_the_sum_and_the_first_device() -> None:
    got = run_on_devices("jax_old_habits.py")

    assert got == {
        "pmean after automatic psum": [16.0, 20.0],
        "unchecked, no collective": [1.0, 2.0],
        "weighted_mean": [4.0, 5.0],
    }
