"""The selftest passes a sound judge and catches weak ones: what exits with 0, compares by ==, or believes a report."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from failuremap.catalogue import mechanism, mechanisms
from failuremap.score.fixtures import public
from failuremap.score.selftest import Plan, plan, selftest, to_json
from failuremap.score.selftest.attacks import attacks
from failuremap.score.selftest.baselines import baselines, forged_report, memorised
from failuremap.score.selftest.escapes import ESCAPES
from failuremap.score.selftest.honest import honest
from failuremap.score.selftest.mutated import mutated
from failuremap.score.verdict import Verdict
from score.stand_in import InProcess, outcome

ENTRY = mechanism("replica-means-ignore-counts")
KEY = b"k" * 32


def sound(source: bytes, slug: str) -> Verdict:
    """Judge as the judge does, without a box."""
    try:
        return verdict(outcome(source.decode(), mechanism(slug), KEY), slug)
    except (SystemExit, KeyError):
        return verdict("crashed", slug)


def exits_with_0(source: bytes, slug: str) -> Verdict:
    """Accept what runs to its end with exit code 0."""
    done = subprocess.run([sys.executable, "-c", source.decode()], capture_output=True, check=False)
    return verdict("wrong" if done.returncode else "accepted", slug)


def believes_the_report(source: bytes, slug: str) -> Verdict:
    """Accept what prints a report that all passed."""
    done = subprocess.run([sys.executable, "-c", source.decode()], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    return verdict("accepted" if lines and json.loads(lines[-1])["passed"] else "wrong", slug)


def compares_by_equality(source: bytes, slug: str) -> Verdict:
    """Compare in one process, by ==, on the published inputs alone."""
    entry = mechanism(slug)
    try:
        solve = InProcess(source.decode()).solve
        right = all(solve(fixture.given) == entry.stages.fixed(fixture.given) for fixture in public(entry))
    except (Exception, SystemExit):
        right = False
    return verdict("accepted" if right else "wrong", slug)


def refuses_all(source: bytes, slug: str) -> Verdict:
    return verdict("wrong", slug)


def fails(source: bytes, slug: str) -> Verdict:
    return verdict("judge-error", slug)


def verdict(word: str, slug: str) -> Verdict:
    return Verdict(outcome=word, sentence="", case=slug)


def failures(judge_source):
    """Return the baselines and the repairs that a judge gets wrong."""
    trials = [(ENTRY, trial) for trial in (*baselines(ENTRY), *honest(ENTRY))]
    return {check.name for check in selftest(Plan(trials, []), judge_source=judge_source).failures}


def test_a_sound_judge_holds():
    assert failures(sound) == set()


@pytest.mark.parametrize(
    ("judge_source", "fooled"),
    [
        (exits_with_0, {"empty file", "broken", "attempt", "forged report", "equal to everything"}),
        (believes_the_report, {"forged report", "forged report, then solve"}),
        (compares_by_equality, {"equal to everything", "memorised answers of the published checks"}),
        (refuses_all, {"the repair", "adds with fsum", "adds from the other end"}),
        (fails, {"empty file", "the repair"}),
    ],
)
def test_a_weak_judge_is_caught(judge_source, fooled):
    assert fooled <= failures(judge_source)


def test_every_family_has_each_kind_of_trial():
    for entry in list(mechanisms().values())[::9]:
        kinds = [list(kind(entry)) for kind in (baselines, honest, attacks, mutated)]
        assert [len(trials) >= least for trials, least in zip(kinds, (12, 7, 20, 20), strict=True)] == [True] * 4
        for trials in kinds:
            assert len({trial.name for trial in trials}) == len(trials)


def test_quick_takes_one_of_each_kind_a_family_and_all_of_each_over_the_families():
    quick = plan(quick=True, families=[ENTRY] * 24)

    assert len(quick.trials) == 4 * 24
    for kind in (baselines, attacks, honest):
        names = {trial.name for trial in kind(ENTRY)}
        assert names == {trial.name for _, trial in quick.trials if trial.name in names}
    assert len(ESCAPES) > len(quick.escapes) > 3
    assert plan(families=[]).escapes == list(ESCAPES)


def test_what_memorises_is_right_on_every_published_input_and_wrong_on_others():
    for slug in ("replica-means-ignore-counts", "norm-misses-shards", "zero-count-times-nan"):
        entry = mechanism(slug)
        assert outcome(memorised(entry), entry, KEY, public(entry)) == "accepted"
        assert outcome(memorised(entry), entry, KEY) != "accepted"


def test_the_forged_report_is_that_of_a_script_that_passes():
    done = subprocess.run([sys.executable, "-c", forged_report(ENTRY)], capture_output=True, text=True, check=False)

    assert done.returncode == 0
    assert json.loads(done.stdout)["passed"] is True


def test_an_equivalent_mutant_that_is_refused_is_a_failure():
    slug = "clip-in-wrong-place"
    trials = [trial for trial in mutated(mechanism(slug)) if trial.equivalent]
    assert trials
    assert all(trial.to_accept for trial in trials)
    assert not any(trial.to_accept for trial in mutated(mechanism(slug)) if not trial.equivalent)


def test_without_a_sound_box_nothing_holds(monkeypatch):
    monkeypatch.setattr("failuremap.score.selftest.running.sound_level", lambda: None)
    found = selftest(Plan([], list(ESCAPES)), judge_source=sound)

    assert (found.holds, found.failures) == (False, [])
    assert json.loads(to_json(found)) == {"holds": False, "checks": [], "box_level": None}


@pytest.mark.slow
def test_the_selftest_holds_here(require):
    require("bwrap")
    found = selftest(plan(quick=True), job_count=os.cpu_count() or 1)

    assert found.failures == []
    assert found.holds
