"""Inspect and lm-evaluation-harness run our tasks with a model that answers the repair, the broken form, garbage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from failuremap.score.adapters import lm_eval
from failuremap.score.statistics import proportion

ROOT = Path(__file__).parents[3]
PACKAGES = ROOT / ".venv-frameworks" / "harnesses"
FAILING = "FM-038"
FAILING_FAMILY = "aux-term-other-denominator"

pytestmark = pytest.mark.slow


def run(script: str, *words: str) -> dict[str, object]:
    """Run a script with the harnesses' packages before those of .venv, without a network; return what it prints."""
    path = os.pathsep.join(map(str, (PACKAGES, ROOT / "tests")))
    offline = {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "INSPECT_DISPLAY": "none"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), *words],
        capture_output=True,
        text=True,
        env={**os.environ, **offline},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", autouse=True)
def packages(require_folder):
    return require_folder(PACKAGES, "make frameworks")


@pytest.fixture(scope="module")
def inspected(packages):
    return run("inspect_run.py", "open", FAILING)


@pytest.fixture(scope="module")
def harnessed(packages, tmp_path_factory):
    folder = tmp_path_factory.mktemp("task") / "lm-eval"
    lm_eval.export(folder, "open")
    return run("lm_eval_run.py", str(folder), "open", FAILING)


def test_inspect_accepts_the_repairs_alone(inspected):
    expected = {"repair": "C", "broken": "I", "garbage": "I"}
    right = {family: expected[kind] for family, kind in inspected["asked"].items()} | {FAILING_FAMILY: "nan"}

    assert (inspected["status"], inspected["sandbox"]) == ("success", "failuremap")
    assert inspected["values"] == right
    assert inspected["outcomes"]["averaged-over-ranks-twice"] == "malformed"


def test_a_judge_error_counts_neither_way_in_inspect(inspected):
    counted = [value for value in inspected["values"].values() if value != "nan"]

    assert inspected["outcomes"][FAILING_FAMILY] == "judge-error"
    assert inspected["unscored"] == 1
    assert inspected["metrics"]["accuracy"] == counted.count("C") / len(counted) == 0.25


def test_the_clustered_error_of_inspect_is_ours(inspected):
    values = {name: float(value == "C") for name, value in inspected["values"].items() if value != "nan"}
    ours = proportion(list(values.values()), [inspected["groups"][name] for name in values])

    assert inspected["metrics"]["stderr"] == pytest.approx(ours.standard_error)


def test_the_sandbox_calls_a_candidate_and_nothing_else(inspected):
    assert inspected["box"]["answer"] == 3.5
    assert inspected["box"]["shell"] == [
        127,
        "'bash -c id': this box has no programs; it calls a candidate:  solve candidate.py\n",
    ]
    assert inspected["box"]["nonsense"][0] == 1
    assert inspected["box"]["nonsense"][1].startswith("no value on the line: ")


def test_lm_eval_accepts_the_repairs_alone(harnessed):
    expected = {"repair": "1.0", "broken": "0.0", "garbage": "0.0"}
    right = {family: expected[kind] for family, kind in harnessed["asked"].items()} | {FAILING_FAMILY: "nan"}

    assert harnessed["solved"] == right
    assert harnessed["results"]["solved,none"] == "0.25"


def test_the_clustered_error_of_lm_eval_is_that_of_inspect(harnessed, inspected):
    assert float(harnessed["results"]["clustered_error,none"]) == pytest.approx(inspected["metrics"]["stderr"])
