"""list and show: what the catalogue holds, as lines, as prose, as scripts and as JSON."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from failuremap.audit.command_line import run_command
from failuremap.catalogue import mechanism, mechanisms, render
from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.records import case_from_json
from failuremap.cli import main

SLUG = "replica-means-ignore-counts"


@pytest.fixture
def run(capsys):
    """Run a command here; return exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        code = run_command(main, list(words))
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def bare(monkeypatch):
    """A mechanism that has neither code nor a live twin."""
    entry = replace(mechanism(SLUG), slug="bare", stages=None, number=0, alias="", audit_blind="")
    monkeypatch.setattr("failuremap.cli.catalogue.case_of", lambda _: (entry, None))
    monkeypatch.setattr("failuremap.cli.catalogue.mechanisms", lambda: {"bare": entry, SLUG: mechanism(SLUG)})


def test_the_faults_are_listed_one_a_line(run):
    code, out, _ = run("list")

    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == sorted(mechanisms())
    assert re.search(rf"^{SLUG} +FM-001  Replica gradients ignore local sample counts  \(scripts\)$", out, re.MULTILINE)


def test_an_entry_without_scripts_is_not_marked(run, bare):
    _, out, _ = run("list")

    assert [line.endswith("  (scripts)") for line in out.splitlines()] == [False, True]


def test_a_group_is_listed_alone(run):
    _, out, _ = run("list", "--group", "counts-across-ranks")

    slugs = [line.split()[0] for line in out.splitlines()]
    assert SLUG in slugs
    assert {mechanism(slug).group for slug in slugs} == {"counts-across-ranks"}


def test_the_list_as_json_has_an_object_for_each(run):
    code, out, _ = run("list", "--json", "--group", "counts-across-ranks")

    entry = next(one for one in json.loads(out) if one["slug"] == SLUG)
    assert code == 0
    assert entry == {
        "number": 1,
        "slug": SLUG,
        "title": "Replica gradients ignore local sample counts",
        "group": "counts-across-ranks",
        "abstract": mechanism(SLUG).abstract,
        "alias": "FA-99241",
        "scripts": True,
        "live": True,
    }


def test_a_fault_is_shown_label_by_label(run):
    code, out, _ = run("show", SLUG)

    lines = out.splitlines()
    assert code == 0
    assert lines[0] == f"Replica gradients ignore local sample counts  ({SLUG}, FM-001-1..5, counts-across-ranks)"
    assert [line[:15].strip() for line in lines[1:] if line[:15].strip()] == [
        "what", "contract", "domain", "clauses", "why", "failure", "vain repair", "repair", "matters", "limits",
        "audit sees", "separated", "related", "see", "scripts", "live",
    ]  # fmt: skip
    assert max(map(len, lines)) <= 110


def test_each_clause_and_each_report_has_a_line_of_its_own(run):
    _, out, _ = run("show", SLUG)

    lines = [line.strip() for line in out.splitlines()]
    assert "zero-total: Without any unit there is no update: []." in lines
    assert [line for line in lines if line.removeprefix("see").strip() in mechanism(SLUG).references][1:] == list(
        mechanism(SLUG).references[1:]
    )


def test_what_an_entry_lacks_is_left_out(run, bare):
    _, out, _ = run("show", "bare")

    assert out.startswith("Replica gradients ignore local sample counts  (bare, counts-across-ranks)\n")
    assert "scripts" not in out
    assert "\n  live" not in out


@pytest.mark.parametrize(
    ("words", "stage", "variant"),
    [
        ([SLUG, "--stage", "broken"], "broken", 1),
        (["FM-001-3", "--stage", "fixed"], "fixed", 3),
        (["FA-99241", "--stage", "attempt"], "attempt", 1),
        (["FM-001", "--stage", "broken", "-N", "2"], "broken", 2),
        (["FA-99241", "--stage", "broken", "-N", "3"], "broken", 3),
        (["fa-99241", "--stage", "broken", "-N", "3"], "broken", 3),
        (["FM-001-2", "--stage", "broken", "-N", "2"], "broken", 2),
    ],
)
def test_a_stage_is_printed_as_the_script_that_is_published(run, words, stage, variant):
    assert run("show", *words) == (0, render(mechanism(SLUG), stage, variant), "")


def test_a_printed_script_runs_by_itself(run):
    _, out, _ = run("show", SLUG, "--stage", "broken", "-N", "2")

    done = subprocess.run([sys.executable, "-"], input=out, capture_output=True, text=True)

    assert done.returncode == 1 and json.loads(done.stdout)["passed"] is False


def test_the_live_twin_is_printed_as_it_stands(run):
    code, out, _ = run("show", "FA-99241", "--live")

    assert code == 0
    assert out.startswith('"""') and "import torch" in out
    compile(out, "train.py", "exec")


def test_the_record_of_a_case_is_that_of_the_open_tier(run):
    code, out, _ = run("show", "FM-001-2", "--json")

    case = case_from_json(out)
    (released,) = released_cases(["FM-001-2"])
    assert (code, case.id, case.is_member_form, case.sha256) == (0, "FM-001-2", False, released.sha256)


def test_a_slug_alone_stands_for_its_first_case(run):
    assert json.loads(run("show", SLUG, "--json")[1])["id"] == "FM-001-1"


BAD = {
    "no such fault": (["show", "partials-avraged"], "slug='partials-avraged' names no mechanism of the catalogue; did"),
    "no such case": (["show", "FM-001-9"], "case='FM-001-9' names no case of the catalogue; `failuremap list` shows"),
    "no such variant": (["show", SLUG, "-N", "6"], "Invalid value for '-N': 6 is not in the range"),
    "no such stage": (["show", SLUG, "--stage", "mended"], "Invalid value for '--stage': 'mended' is not one of"),
    "no such group": (["list", "--group", "nine"], "--group='nine' is no evaluation group; there are: "),
    "two variants": (["show", "FM-001-1", "-N", "3"], "-N 3 with 'FM-001-1', which is the case of N=1; give one of"),
    "two outputs": (["show", SLUG, "--json", "--live"], "--stage, --live and --json each print something else; give"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_usage_is_one_line(run, what):
    words, message = BAD[what]

    code, out, err = run(*words)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ") and message in err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--stage", "fixed"], f"slug='bare' has no script for --stage fixed. Entries with scripts: {SLUG}."),
        (["--json"], f"slug='bare' has no script for --json. Entries with scripts: {SLUG}."),
        (["--live"], "slug='bare' has no script for --live: it has not been made to happen in PyTorch on CPU."),
    ],
)
def test_what_an_entry_does_not_have_is_not_printed(run, bare, option, message):
    assert run("show", "bare", *option) == (2, "", f"error: {message}\n")
