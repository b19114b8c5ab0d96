"""`failuremap audit --stop-on-wrong`: the job ends at its first wrong step, and the verdict is "wrong" all the same."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from failuremap.audit import session
from failuremap.audit.launch import Ending, Job
from failuremap.audit.model import Finding, Verdict

LONG = """
import time, torch, torch.nn.functional as F
model = torch.nn.Linear(8, 4)
step = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(900):
    for size in (3, 5):
        (F.cross_entropy(model(torch.randn(size, 8)), torch.zeros(size, dtype=torch.long)) / 2).backward()
    step.step(); step.zero_grad(); time.sleep(0.1)
print("never stopped")
"""


@pytest.mark.slow
@pytest.mark.torch
def test_a_wrong_job_is_stopped_and_its_verdict_is_wrong(tmp_path):
    (tmp_path / "train.py").write_text(LONG)
    command = [sys.executable, "-m", "failuremap", "audit", "--stop-on-wrong", "--json", "out.json", "--", "train.py"]

    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)

    assert result.returncode == 1, result.stdout + result.stderr
    assert "JobStopped: the job was to stop at the first wrong step: step 1 is wrong: " in result.stderr
    assert "never stopped" not in result.stdout
    verdict = json.loads((tmp_path / "out.json").read_text())
    assert verdict["outcome"] == "wrong"
    assert verdict["notes"][-1] == "the job was stopped at its first wrong step, as --stop-on-wrong asks"


@pytest.mark.parametrize(("stop", "outcome"), [(True, "wrong"), (False, "script failed")])
def test_only_a_job_that_was_to_stop_has_a_verdict_in_spite_of_its_exit_code(tmp_path, monkeypatch, stop, outcome):
    job = Job((sys.executable, "train.py"), None, None, tmp_path, "run0", stop_on_wrong=stop)
    (tmp_path / session.WRONG).write_text("{}")
    finding = Finding(
        sentence="x", candidates=[], followed="a", promised="b", steps=[1], parameters=[], parameter_count=1
    )
    seen = Verdict(outcome="wrong", sentence="x", findings=[finding])
    monkeypatch.setattr(session, "_diagnose", lambda *_: seen)

    assert session.judge(job, Ending((1,), first_failed=0), None, "mean").outcome == outcome


def test_a_job_that_fails_without_a_wrong_step_has_failed(tmp_path):
    job = Job((sys.executable, "train.py"), None, None, tmp_path, "run0", stop_on_wrong=True)

    assert session.judge(job, Ending((1,), first_failed=0), None, "mean").outcome == "script failed"
