"""run and verify: scripts in a fresh interpreter, what their checks observed, and whether it is what was recorded."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from cli.user import User
from failuremap.audit.command_line import run_command
from failuremap.catalogue import mechanism
from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.run import Observation, Run
from failuremap.catalogue.verify import StageResult
from failuremap.cli import main

SLUG = "replica-means-ignore-counts"
FAILED = StageResult(SLUG, "fixed", 2, 1, 6, ("empty block",), "fixed fails: empty block")
HELD = StageResult(SLUG, "fixed", 1, 0, 6, (), "")


@pytest.fixture
def run(capsys):
    """Run a command here; return exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        code = run_command(main, list(words))
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def bare(monkeypatch):
    """A mechanism that has no code."""
    entry = replace(mechanism(SLUG), stages=None)
    monkeypatch.setattr("failuremap.cli.catalogue.case_of", lambda _: (entry, None))
    monkeypatch.setattr("failuremap.cli.running.jobs_of", lambda _: [])


def test_a_run_shows_what_each_check_observed(run):
    code, out, _ = run("run", "FM-001-2", "--stage", "attempt")

    assert code == 1
    assert out.splitlines() == [
        "replica-means-ignore-counts attempt N=2",
        "check                actual        expected    outcome",
        "unequal batch sizes  [10.0, 14.0]  [5.0, 7.0]  FAILED",
        "equal sizes          [8.0]         [4]         FAILED",
        "zero-weight row      [4.0]         [4]         passed",
        "all zero weights     []            []          passed",
        "empty collective     []            []          passed",
        "single contribution  [4.0, 8.0]    [2, 4]      FAILED",
        "unequal sizes vary   [17.0]        [6.8]       FAILED",
        "exit code 1",
    ]


def test_the_broken_form_is_run_where_none_is_named(run):
    assert run("run", SLUG)[1].splitlines()[0] == f"{SLUG} broken N=1"


def test_a_run_of_the_repair_passes(tmp_path):
    code, out, err = User(tmp_path).run("run", "FA-99241", "--stage", "fixed")

    assert (code, err) == (0, "")
    assert "FAILED" not in out and out.endswith("exit code 0\n")


def test_a_run_as_json_is_alone_on_stdout(run):
    code, out, _ = run("run", SLUG, "--stage", "attempt", "-N", "2", "--json")

    shown = json.loads(out)
    assert (code, shown["exit_code"], shown["stage"], shown["variant"], shown["stopped"]) == (1, 1, "attempt", 2, "")
    assert shown["observations"][0] == {
        "check": "unequal batch sizes",
        "actual": [10.0, 14.0],
        "expected": [5.0, 7.0],
        "passed": False,
    }


@pytest.mark.parametrize(
    ("seen", "lines"),
    [
        (
            Run(None, (), "", "half", "the script was still running after 30 s"),
            ["half", "the script was still running"],
        ),
        (Run(1, (), "", "Traceback\nKeyError: 3\n"), ["Traceback", "KeyError: 3", "exit code 1"]),
        (Run(7, (), "", ""), ["exit code 7"]),
    ],
)
def test_a_script_that_came_to_no_report_is_no_failed_check(run, monkeypatch, seen, lines):
    monkeypatch.setattr("failuremap.cli.running.run", lambda _: seen)

    code, out, _ = run("run", SLUG)

    assert code == 4
    assert [line.removesuffix(" after 30 s") for line in out.splitlines()[1:]] == lines


def test_a_long_value_is_cut(run, monkeypatch):
    seen = Run(1, (Observation("long", list(range(99)), [1], False),), "", "")
    monkeypatch.setattr("failuremap.cli.running.run", lambda _: seen)

    _, out, _ = run("run", SLUG)

    assert out.splitlines()[2] == "long   [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11...  [1]       FAILED"


def test_an_entry_without_code_is_not_run(run, bare):
    code, out, err = run("run", SLUG)

    assert (code, out) == (2, "")
    assert err.startswith(f"error: slug='{SLUG}' has no script for --stage broken. Entries with scripts: ")


def test_a_fault_is_verified_script_by_script(run):
    code, out, _ = run("verify", "partials-averaged")

    lines = out.splitlines()
    assert (code, len(lines)) == (0, 16)
    assert all(line.startswith("ok     partials-averaged ") for line in lines[:-1])
    assert lines[0].endswith("broken N=1  fails 4 of 6 checks, as it should")
    assert lines[-2].endswith("fixed N=5  passes all 6 checks, as it should")
    assert lines[-1] == "15 scripts of 1 mechanism run, all as they should be"


def test_a_case_is_verified_by_its_id(run):
    code, out, _ = run("verify", "FM-001-3")

    assert code == 0
    assert [line.split()[2:4] for line in out.splitlines()[:-1]] == [
        [stage, "N=3"] for stage in ("broken", "attempt", "fixed")
    ]
    assert out.splitlines()[-1] == "3 scripts of 1 mechanism run, all as they should be"


@pytest.fixture
def verified(monkeypatch):
    """Let `verify` give planted results; return what it was called with."""
    calls = []

    def plant(*results: StageResult) -> list:
        def verify(names, on_progress, *, against_records):
            calls.append((names, against_records))
            for result in results:
                on_progress(result)
            return list(results)

        monkeypatch.setattr("failuremap.cli.running.verify", verify)
        return calls

    return plant


def test_a_fault_whose_claim_does_not_hold_is_told(run, verified):
    verified(FAILED)

    code, out, _ = run("verify", SLUG)

    assert code == 1
    assert out.splitlines() == [
        f"FAILED {SLUG} fixed N=2  fixed fails: empty block",
        "1 script of 1 mechanism run, 1 not as they should be",
    ]


def test_entries_without_scripts_are_counted_where_they_were_asked_for(run, verified):
    verified(HELD)

    _, out, _ = run("verify", SLUG, "partials-averaged", "FM-001-1")

    assert out.splitlines()[-1] == "1 script of 1 mechanism run, all as they should be; 1 entry has no scripts"


def test_nothing_to_verify_is_an_error(run, bare):
    code, out, err = run("verify", SLUG)

    assert (code, out) == (2, "")
    assert err.startswith(f"error: names=['{SLUG}']: no scripts to run. Entries with scripts: ")


def test_recording_compares_with_nothing_and_names_what_it_wrote(run, verified, monkeypatch):
    calls = verified(HELD)
    monkeypatch.setattr("failuremap.cli.running.record", lambda results: [result.slug for result in results])

    code, out, _ = run("verify", "FM-001-2", "--record")

    assert code == 0
    assert calls == [((SLUG,), False)]
    assert f"recorded: {SLUG}\n" in out


def test_what_does_not_hold_is_not_recorded(run, verified):
    verified(FAILED)

    code, out, _ = run("verify", SLUG, "--record")

    assert code == 1 and "recorded: nothing\n" in out


def test_an_attestation_names_the_record_that_was_run(run, tmp_path):
    path = tmp_path / "runs.jsonl"

    run("verify", "FM-001-2", "--attest", str(path))

    (line,) = path.read_text().splitlines()
    (case,) = released_cases(["FM-001-2"])
    assert json.loads(line)["subject"] == [{"name": "FM-001-2", "digest": {"sha256": case.sha256}}]
    assert set(json.loads(line)["predicate"]["stages"]) == {"broken", "attempt", "fixed"}


def test_an_attestation_on_stdout_is_there_alone(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    _, out, err = run("verify", "FM-001-2", "--attest", "-")

    assert [json.loads(line)["subject"][0]["name"] for line in out.splitlines()] == ["FM-001-2"]
    assert err.splitlines()[-1] == "3 scripts of 1 mechanism run, all as they should be"
    assert list(tmp_path.iterdir()) == []


def test_what_did_not_hold_is_not_attested(run, verified, tmp_path):
    verified(HELD, FAILED)

    run("verify", SLUG, "--attest", str(tmp_path / "runs.jsonl"))

    assert (tmp_path / "runs.jsonl").read_text() == ""


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_run(run, verified):
    calls = verified(HELD)

    code, _, err = run("verify", SLUG, "--attest", "no/such/folder/runs.jsonl")

    assert (code, calls) == (2, [])
    assert err.startswith("error: path='no/such/folder/runs.jsonl': there is no folder 'no/such/folder'")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_only_what_fails_has_a_line(run, verified, monkeypatch):
    terminal = Terminal()
    verified(HELD, FAILED)
    monkeypatch.setattr("sys.stdout", terminal)

    code = run_command(main, ["verify", SLUG])

    assert code == 1
    assert f"FAILED {SLUG} fixed N=2  fixed fails: empty block" in terminal.getvalue()
    assert f"ok     {SLUG}" not in terminal.getvalue()
    assert "2 scripts of 1 mechanism run, 1 not as they should be" in terminal.getvalue()
