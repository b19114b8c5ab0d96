"""A verdict carries how the job ended, and a job that was not seen whole is never called right."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from failuremap.audit import session
from failuremap.audit.launch import Ending, Job
from failuremap.audit.model import Finding, Verdict


@pytest.fixture
def job(tmp_path):
    return Job((sys.executable, "train.py", "--name", "a b"), None, None, tmp_path, "run0")


def test_a_job_that_ended_well_is_named_in_the_verdict(job):
    verdict = session.judge(job, Ending((0,)), "example", "sum")

    assert (verdict.outcome, verdict.promise) == ("not measured", "sum")
    assert (verdict.script, verdict.script_exit_code) == (f"{sys.executable} train.py --name 'a b'", 0)


def test_a_failed_script_outranks_the_trace_and_what_was_seen_is_a_note(job):
    seen = session.judge(job, Ending((0,)), None, "mean")

    verdict = session.judge(job, Ending((0, -9), first_failed=1), None, "mean")

    assert (verdict.outcome, verdict.exit_code, verdict.script_exit_code) == ("script failed", 4, -9)
    assert verdict.sentence == "Rank 1 was killed by SIGKILL."
    assert verdict.notes[0] == f"Until then: {seen.sentence}"


def test_a_trace_that_cannot_be_read_is_a_reason_and_no_exception(job):
    (job.trace_dir / "rank00000-1.trace").write_text("no trace")

    verdict = session.judge(job, Ending((0,)), None, "mean")

    assert (verdict.outcome, verdict.sentence) == ("not measured", "The trace of the run can't be read.")
    assert "rank00000-1.trace" in verdict.reasons[0]


@pytest.mark.parametrize("outcome", ["right", "wrong"])
def test_ranks_that_were_not_heard_make_it_cannot_tell(outcome):
    finding = Finding(
        sentence="x", candidates=[], followed="a", promised="b", steps=[1], parameters=[], parameter_count=1
    )
    seen = Verdict(outcome=outcome, sentence="What was seen.", findings=[finding] if outcome == "wrong" else [])

    verdict = session.without_ranks(seen, [1, 3], Path("/tmp/t"), 30.0)

    assert (verdict.outcome, verdict.findings, verdict.exit_code) == ("cannot tell", [], 3)
    assert verdict.sentence == "Not all ranks were heard: ranks 1, 3 are missing."
    assert verdict.notes == ["From the ranks that were heard: What was seen."]
    assert "".join(verdict.reasons) == (
        "Ranks 1, 3 left no word in '/tmp/t' within 30 s. Usual causes: (a) the ranks run on several machines; "
        "(b) they have different parent processes; (c) they hang. "
        "For (a) and (b) give all ranks the same folder, which all of them see: --trace DIR."
    )


def test_a_failed_script_stays_one_where_ranks_were_not_heard():
    seen = Verdict(outcome="script failed", sentence="Rank 0 exited with code 1.")

    verdict = session.without_ranks(seen, [1], Path("/tmp/t"), 30.0)

    assert (verdict.outcome, verdict.sentence) == (seen.outcome, seen.sentence)
    assert verdict.reasons[0].startswith("Rank 1 left no word in '/tmp/t' within 30 s.")
