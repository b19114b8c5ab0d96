"""failuremap score: a candidate, a suite, the judge itself; exit codes, and what is said of bad usage."""

from __future__ import annotations

import json
import sys

import pytest

from failuremap.audit.command_line import run_command
from failuremap.catalogue import mechanism
from failuremap.cli import main
from failuremap.score.forms import candidate_of
from failuremap.score.selftest import Check, Selftest
from failuremap.score.verdict import Verdict
from failuremap.score.words import verdict_lines

SLUG = "partials-averaged"


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run `failuremap score` here, in a folder with a repair and a broken form; return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    for name, stage in (("repair.py", "fixed"), ("broken.py", "broken")):
        (tmp_path / name).write_text(candidate_of(mechanism(SLUG), stage))
    (tmp_path / "season.key").write_bytes(b"k" * 32)

    def run(*words: str) -> tuple[int, str, str]:
        code = run_command(main, ["score", *words])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def candidates(tmp_path):
    """A folder with one sample of each of two systems."""
    for system, stage in (("good", "fixed"), ("bad", "broken")):
        folder = tmp_path / "answers" / system / SLUG
        folder.mkdir(parents=True)
        (folder / "sample-1.py").write_text(candidate_of(mechanism(SLUG), stage))
    return "answers"


def test_a_repair_is_accepted(run):
    code, out, err = run("repair.py", "--case", SLUG)

    assert (code, err) == (0, "")
    assert out.startswith("✓ accepted  FM-002  It keeps the contract on all inputs: ")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["kept", "fixtures", "numerics", "box", "candidate"]


def test_a_wrong_candidate_is_shown_where_it_is_wrong(run):
    code, out, _ = run("broken.py", "--case", "FA-99246")

    assert code == 1
    assert out.startswith("✗ wrong  FM-002-1  It breaks the contract: ")
    assert "\n  broken      adds-up" in out
    assert "; solve([[" in out


def test_the_verdict_is_printed_as_json_with_the_key_that_was_drawn(run):
    code, out, _ = run("broken.py", "--case", SLUG, "--json")
    verdict = Verdict.model_validate_json(out)

    assert (code, verdict.outcome, len(bytes.fromhex(verdict.key))) == (1, "wrong", 32)


def test_the_operators_key_is_not_revealed_and_gives_the_same_verdict_again(run):
    first, second = (run("repair.py", "--case", SLUG, "--key", "season.key", "--json")[1] for _ in range(2))
    verdict = json.loads(first)

    assert verdict["key"] is None
    assert {**verdict, "usage": 0} == {**json.loads(second), "usage": 0}


def test_a_file_that_is_not_there_is_a_verdict(run):
    code, out, _ = run("absent.py", "--case", SLUG)

    assert code == 1
    assert out == "✗ malformed  FM-002  candidate='absent.py' can't be read: No such file or directory\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing is given; expected one of FILE, --candidates, --selftest, --export-lm-eval."),
        (["repair.py"], "--case is missing: which case does FILE repair? `failuremap list` shows them."),
        (["repair.py", "--selftest"], "FILE and --selftest are given; expected one of"),
        (["repair.py", "--case", SLUG, "--suite", "open"], "--suite has no meaning with FILE; leave it out."),
        (["--selftest", "--key", "season.key"], "--key has no meaning with --selftest; leave it out."),
        (["--quick", "--candidates", "x"], "--quick has no meaning with --candidates; leave it out."),
        (["repair.py", "--case", "FM-999"], "case='FM-999' names no case of the catalogue"),
        (["repair.py", "--case", SLUG, "--key", "absent"], "--key 'absent' can't be read"),
        (["--candidates", "absent"], "--candidates 'absent' doesn't exist; expected DIR/NAME/sample-1.py or"),
        (["--candidates", "answers", "--suite", "sealed"], "--suite sealed needs --key FILE"),
        (["--candidates", "answers", "--out", "/dev/full"], "--out '/dev/full' is no regular file; expected one that"),
        (["--candidates", "answers", "--out", "no/such/file"], "--out 'no/such/file' can't be written: No such file"),
        (["--candidates", "answers", "--plot", "no/such/file"], "path='no/such/file': there is no folder 'no/such'"),
        (["--candidates", "answers", "--against", "repair.py"], "results='repair.py', line 1: Invalid JSON"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(run, candidates, words, message):
    code, out, err = run(*words)

    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


def test_a_suite_is_reported_kept_and_drawn(run, candidates, tmp_path):
    code, out, err = run("--candidates", candidates, "--jobs", "1", "--out", "results.jsonl", "--plot", "plot.svg")

    assert code == 0
    assert sorted(err.splitlines()) == [
        "accepted    good partials-averaged FM-002 sample 1",
        "wrong       bad partials-averaged FM-002 sample 1",
    ]
    assert "good  1 sample a family  1 accepted\n  pass@1      2.0%  ± " in out
    assert "bad less good: -2.0 points of pass@1, ± " in out
    assert (tmp_path / "plot.svg").read_text().startswith("<svg ")
    again = run("--candidates", candidates, "--jobs", "1", "--out", "results.jsonl")
    assert again == (0, out, "")


def test_the_report_is_printed_as_json_and_compared_with_other_results(run, candidates, tmp_path):
    run("--candidates", candidates, "--jobs", "1", "--out", "results.jsonl")
    (tmp_path / "answers" / "bad").rename(tmp_path / "mine")
    (tmp_path / "others").mkdir()
    (tmp_path / "mine").rename(tmp_path / "others" / "mine")

    code, out, _ = run("--candidates", "others", "--jobs", "1", "--against", "results.jsonl", "--json")
    assert code == 0
    assert [system["system"] for system in json.loads(out)["systems"]] == ["bad", "good", "mine"]
    again = run("--candidates", candidates, "--against", "results.jsonl")
    assert (
        again[2] == "error: --against 'results.jsonl' has system='good', and so has --candidates; rename its folder.\n"
    )


def test_a_failure_of_the_judge_is_exit_code_3(run, candidates, monkeypatch):
    def failing(source, case, **_):
        return Verdict(outcome="judge-error", sentence="The judge failed.", case=case)

    monkeypatch.setattr(sys.modules["failuremap.score.judge"], "judge", failing)
    monkeypatch.setattr("failuremap.score.judging.judge", failing)

    assert run("repair.py", "--case", SLUG)[:2] == (
        3,
        "? judge-error  FM-002  The judge failed.\n".replace("FM-002", SLUG),
    )
    assert run("--candidates", candidates, "--jobs", "1")[0] == 3


@pytest.mark.slow
def test_a_selftest_that_does_not_hold_is_exit_code_1(run, monkeypatch):
    checks = [
        Check(kind=kind, family=SLUG, name="x", outcome="accepted", holds=True) for kind in ("baseline", "honest")
    ]
    checks.append(Check(kind="attack", family=SLUG, name="y", outcome="accepted", holds=False))
    found = Selftest(checks=tuple(checks), box_level="box-3")
    monkeypatch.setattr("failuremap.score.selftest.selftest", lambda *_, **__: found)

    code, out, _ = run("--selftest", "--quick")
    assert code == 1
    assert out.splitlines()[1].split() == [SLUG, *"1 of 1 1 of 1 0 of 1 0 of 0".split()]
    assert out.splitlines()[-2:] == [
        f"FAILED attack 'y' of {SLUG}: accepted",
        "NOT as it must be: don't rely on this judge",
    ]
    assert json.loads(run("--selftest", "--json")[1])["holds"] is False


def test_the_lm_eval_task_is_exported(run):
    code, out, _ = run("--export-lm-eval", "task", "--suite", "open")

    assert (code, out) == (0, "3 files in task: failuremap_open.yaml, failuremap_task.py, questions.jsonl\n")


def test_clauses_that_were_not_reached_are_told_from_those_that_failed():
    clauses = {"one": True, "two": False, "three": None}
    lines = verdict_lines(Verdict(outcome="wrong", sentence="It is wrong.", case="FM-001", clauses=clauses))

    assert lines[1:] == ["  broken      two", "  kept        one", "  not reached three"]
