"""Many candidates, in processes of their own, and a file of results that a stop cannot spoil."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from failuremap.catalogue import mechanism
from failuremap.errors import InvalidArgument
from failuremap.score.forms import candidate_of
from failuremap.score.judging import judge_candidates, judge_samples
from failuremap.score.results import open_results, read_results
from failuremap.score.suite import Sample, find_candidates
from failuremap.score.verdict import Verdict

SLUG = "partials-averaged"
REPAIR, BROKEN = (candidate_of(mechanism(SLUG), stage) for stage in ("fixed", "broken"))


@pytest.fixture
def folder(tmp_path):
    """Two systems: one that repairs, one that does not."""
    for system, text in (("good", REPAIR), ("bad", BROKEN)):
        (tmp_path / "candidates" / system / SLUG).mkdir(parents=True)
        (tmp_path / "candidates" / system / SLUG / "sample-1.py").write_text(text)
    return tmp_path / "candidates"


def judged(folder, **options):
    """Judge what is in a folder; return the season, the outcomes by system, and what was judged just now."""
    new = []
    season, results = judge_candidates(find_candidates(folder, "open"), new.append, **options)
    return season, {result.system: result.verdict.outcome for result in results}, [result.system for result in new]


@pytest.mark.slow
def test_a_folder_is_judged_in_parallel_and_kept(folder, tmp_path):
    out = tmp_path / "results.jsonl"
    season, outcomes, new = judged(folder, out=out, job_count=2)

    assert outcomes == {"good": "accepted", "bad": "wrong"}
    assert sorted(new) == ["bad", "good"]
    kept, results = read_results(out)
    assert kept == season
    assert {result.verdict.key_commitment for result in results} == {season.key_commitment}
    assert bytes.fromhex(season.key)


def test_what_was_judged_is_not_judged_again_unless_its_text_changed(folder, tmp_path):
    out = tmp_path / "results.jsonl"
    judged(folder, out=out)
    (folder / "bad" / SLUG / "sample-1.py").write_text(REPAIR)

    _, outcomes, new = judged(folder, out=out)
    assert (outcomes, new) == ({"good": "accepted", "bad": "accepted"}, ["bad"])
    assert judged(folder, out=out)[2] == []


def test_a_line_that_was_cut_off_is_judged_again_and_a_judge_error_too(folder, tmp_path):
    out = tmp_path / "results.jsonl"
    judged(folder, out=out)
    lines = out.read_text().splitlines()
    failed = json.loads(lines[1])
    failed["verdict"]["outcome"] = "judge-error"
    out.write_text("\n".join([lines[0], json.dumps(failed), lines[2][:50]]))

    _, outcomes, new = judged(folder, out=out)
    assert sorted(new) == ["bad", "good"]
    assert "judge-error" not in outcomes.values()
    read_results(out)


def test_a_candidate_that_is_gone_is_not_reported(folder, tmp_path):
    out = tmp_path / "results.jsonl"
    judged(folder, out=out)
    (folder / "bad" / SLUG / "sample-1.py").unlink()

    assert judged(folder, out=out)[1] == {"good": "accepted"}


def test_a_file_of_another_suite_or_key_is_refused(folder, tmp_path):
    out, key = tmp_path / "results.jsonl", secrets.token_bytes(32)
    judged(folder, out=out, key=key)

    with pytest.raises(InvalidArgument, match=r"is of another key, key_commitment=.*; give its key by --key FILE."):
        judged(folder, out=out)
    with (
        pytest.raises(InvalidArgument, match=r"is of --suite open, not sealed\. Name another file by --out, or remove"),
        open_results(out, "sealed", key),
    ):
        pass
    assert read_results(out)[0].key is None


def test_the_sealed_suite_needs_a_key(tmp_path):
    with (
        pytest.raises(InvalidArgument, match="--suite sealed needs --key FILE, the operator's key of the season"),
        open_results(tmp_path / "results.jsonl", "sealed", None),
    ):
        pass


def test_two_runs_do_not_write_one_file(tmp_path):
    with (
        open_results(tmp_path / "results.jsonl", "open", None),
        pytest.raises(InvalidArgument, match="is being written by another run; wait for it, or name another file"),
        open_results(tmp_path / "results.jsonl", "open", None),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no line; expected what `failuremap score --out` writes."),
        ("{}\n", "line 1, suite: Field required; expected what `failuremap score --out` writes."),
        ("not json\n", "line 1: Invalid JSON"),
    ],
)
def test_a_file_that_is_something_else_is_refused_and_left_as_it_is(tmp_path, text, message):
    path = tmp_path / "results.jsonl"
    path.write_text(text)

    with pytest.raises(InvalidArgument, match=message):
        read_results(path)
    assert path.read_text() == text


def sample(number):
    return Sample("s", SLUG, "FM-002", number, None)


def slow(one):
    """Judge by the number of the sample: 1 at once, 2 after a while; 3 ends the judge's process."""
    if one.number == 3:
        os._exit(1)
    time.sleep(0.5 * (one.number - 1))
    return Verdict(outcome="accepted", sentence="", case=one.case)


@pytest.mark.slow
def test_a_stop_loses_nothing_that_was_under_way():
    seen = []

    def stopped_at_first(result):
        seen.append(result.sample)
        if len(seen) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge_samples([sample(1), sample(2)], slow, stopped_at_first, job_count=2)
    assert seen == [1, 2]


@pytest.mark.slow
def test_a_judge_that_is_ended_from_outside_says_nothing_of_the_candidate():
    seen = []
    judge_samples([sample(3)], slow, seen.append, job_count=2)

    assert [result.verdict.outcome for result in seen] == ["judge-error"]
    assert seen[0].verdict.sentence == (
        "The judge's process was ended from outside, which says nothing of the candidate."
    )


@pytest.mark.slow
def test_a_killed_run_leaves_no_process(folder, tmp_path):
    endless = "def solve(parts):\n    while True: pass\n"
    (folder / "bad" / SLUG / "sample-1.py").write_text(endless)
    out = tmp_path / "results.jsonl"
    command = [
        sys.executable,
        "-m",
        "failuremap",
        "score",
        "--candidates",
        str(folder),
        "--out",
        str(out),
        "--jobs",
        "2",
    ]
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (out.exists() and out.read_text().count("\n") == 2):
        time.sleep(0.1)
    run.send_signal(signal.SIGKILL)
    run.wait()

    while time.monotonic() < deadline and _session_lives(run.pid):
        time.sleep(0.1)
    assert not _session_lives(run.pid)
    assert [result.system for result in read_results(out)[1]] == ["good"]


def _session_lives(pid):
    """Say whether a process of this session still runs."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == pid and fields[0] not in "ZX":
            return True
    return False
