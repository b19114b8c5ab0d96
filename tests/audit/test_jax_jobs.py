"""JAX jobs with the audit's two lines: each device is a rank, and the steps of MultiSteps are found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from failuremap.audit import diagnose

pytestmark = pytest.mark.jax
ROOT = Path(__file__).parents[2]
JOB = ROOT / "tests" / "jobs" / "frameworks" / "jax_loop.py"


def run(folder: Path | None, *options: str, script: Path = JOB) -> str:
    """Run a job in a process of its own, audited if there is a folder for its traces."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "JAX_PLATFORMS": "cpu"}
    if folder is not None:
        folder.mkdir()
        env |= {"FAILUREMAP_TRACE_DIR": str(folder), "FAILUREMAP_RUN_ID": "run"}
    done = subprocess.run([sys.executable, str(script), *options], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "outcome", "slugs"),
    [
        ("--accum 2 --equal", "right", []),
        ("--never-reduced", "wrong", ["never-synchronised"]),
    ],
)
def test_without_check_vma(options, outcome, slugs, tmp_path):
    run(tmp_path / "trace", *options.split())
    verdict = diagnose(tmp_path / "trace")

    assert (verdict.outcome, [c.slug for f in verdict.findings for c in f.candidates][:1]) == (outcome, slugs)
    assert (verdict.evidence.rank_count, verdict.evidence.step_count) == (2, 4)


@pytest.mark.slow
def test_the_weights_are_the_same_bits_with_and_without(tmp_path):
    run(tmp_path / "trace", "--accum", "2", "--save", str(tmp_path / "with.npz"))
    run(None, "--accum", "2", "--save", str(tmp_path / "without.npz"))

    audited, plain = np.load(tmp_path / "with.npz"), np.load(tmp_path / "without.npz")
    assert {name: audited[name].tobytes() for name in audited} == {name: plain[name].tobytes() for name in plain}


HIDES_TORCH = """
from importlib.machinery import PathFinder

found = PathFinder.find_spec
PathFinder.find_spec = staticmethod(
    lambda name, path=None, target=None: None if name.split(".")[0] == "torch" else found(name, path, target)
)
"""


@pytest.mark.slow
def test_a_jax_job_is_audited_where_torch_is_not_installed(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(HIDES_TORCH)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")]), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "failuremap", "audit", "--json", str(tmp_path / "v.json"), "--", str(JOB)]

    control = subprocess.run([sys.executable, "-c", "import torch"], env=env, capture_output=True, text=True)
    audited = subprocess.run(command, env=env, capture_output=True, text=True)

    assert "No module named 'torch'" in control.stderr
    assert (audited.returncode, json.loads((tmp_path / "v.json").read_text())["outcome"]) == (0, "right")


@pytest.mark.slow
def test_a_jax_script_with_neither_line_is_told_of_them(tmp_path):
    (tmp_path / "train.py").write_text("import sys, types; sys.modules['jax'] = types.ModuleType('jax')")
    command = [sys.executable, "-m", "failuremap", "audit", "--json", "-", "--", "train.py"]

    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout

    (reason,) = json.loads(printed)["reasons"]
    assert reason == (
        "capture did not start in a process of the job: of JAX only the two lines of failuremap.audit.jax are heard, "
        "and the script has neither"
    )


def test_without_an_audit_both_lines_return_what_they_got_and_import_nothing():
    code = (
        "import sys; from failuremap.audit.jax import contribution, watched; o = object(); "
        "print(contribution(o, 3) is o, watched(o) is o, {'jax', 'torch'} & sys.modules.keys())"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "True True set()"
