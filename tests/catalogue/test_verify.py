"""The scripts: byte for byte those published, run in a fresh interpreter, and held to their entries' claims."""

from __future__ import annotations

import hashlib
import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from failuremap.catalogue import STAGES, VARIANTS, mechanism, mechanisms, render, verify
from failuremap.catalogue.claims import claim_problem
from failuremap.catalogue.recording import read_recordings
from failuremap.catalogue.run import run
from failuremap.catalogue.verify import jobs_of, record, verify_stage
from failuremap.errors import InvalidArgument

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
VERIFY = importlib.import_module("failuremap.catalogue.verify")  # the package has the function under this name
WITH_CODE = ("partials-averaged", "replica-means-ignore-counts")
PUBLISHED = {
    ("replica-means-ignore-counts", "broken"): "463bff61bdbcda2ed497d0751d4fe96af1b16a1cb9f27b91ae95eb0312cdd088",
    ("replica-means-ignore-counts", "attempt"): "dfaa1df7b6d35b3c8477a2939b3e92ad05b44160289c64f5e8d67568c1dc26dd",
    ("partials-averaged", "broken"): "647e6cefd913be653eddd40fe879325c2b5bdd8f0dea094588c2e82471b2bfbc",
    ("partials-averaged", "attempt"): "a0c5414c70ec0582d3a4d1f5c1c3fe82e3c0bf5aa199aef3f1f866939501f3c9",
}


@pytest.mark.parametrize(("slug", "stage"), PUBLISHED)
def test_a_script_is_that_of_the_published_record(slug, stage):
    script = render(mechanism(slug), stage)

    assert hashlib.sha256(script.encode()).hexdigest() == PUBLISHED[slug, stage]


def test_negative_control_another_variant_is_another_script():
    script = render(mechanism("partials-averaged"), "broken", 2)

    assert hashlib.sha256(script.encode()).hexdigest() != PUBLISHED["partials-averaged", "broken"]


@pytest.mark.parametrize("stage", ["broken", "attempt"])
@pytest.mark.skipif(not SEEDS.is_dir(), reason="the published records are not beside the checkout")
def test_a_run_observes_what_the_published_record_says(stage):
    record = json.loads((SEEDS / "FA-99241.json").read_text(encoding="utf-8"))

    seen = run(render(mechanism("replica-means-ignore-counts"), stage))

    assert seen.stdout == record["verification"][stage]["stdout"]
    assert seen.exit_code == record["verification"][stage]["exit_code"]


def test_every_stage_and_variant_holds_and_is_reported_in_order():
    reported = []

    results = verify(WITH_CODE, on_progress=reported.append)

    assert [result.problem for result in results if not result.holds] == []
    assert [(result.slug, result.stage, result.variant) for result in results] == [
        (slug, stage, variant) for slug in WITH_CODE for stage in STAGES for variant in VARIANTS
    ]
    assert reported == results
    assert {result.check_count for result in results} == {6, 7}
    assert {result.stage for result in results if result.failed_checks} == {"broken", "attempt"}
    assert all(result.duration_s > 0 for result in results)


@pytest.mark.slow
def test_the_whole_catalogue_gives_what_is_recorded():
    assert [(one.slug, one.stage, one.variant, one.problem) for one in verify() if not one.holds] == []


def test_all_scripts_are_run_where_none_is_named():
    with_code = [slug for slug, entry in mechanisms().items() if entry.stages]

    assert [(job.entry.slug, job.stage, job.variant) for job in jobs_of()] == [
        (slug, stage, variant) for slug in with_code for stage in STAGES for variant in VARIANTS
    ]


def test_a_case_is_verified_alone():
    assert [(one.slug, one.stage, one.variant) for one in verify(["FM-001-3"])] == [
        ("replica-means-ignore-counts", stage, 3) for stage in STAGES
    ]


def test_a_mechanism_without_code_gives_no_result(monkeypatch):
    bare = replace(mechanism("partials-averaged"), stages=None)
    monkeypatch.setattr(VERIFY, "case_of", lambda _: (bare, None))

    assert verify(["partials-averaged"]) == []


def test_negative_control_a_run_that_differs_from_its_record_is_caught(monkeypatch):
    recordings = {
        key: replace(one, stdout=one.stdout.replace("[1, 2]", "[1, 3]"))
        for key, one in read_recordings("partials-averaged").items()
    }
    monkeypatch.setattr(VERIFY, "read_recordings", lambda _: recordings)

    results = verify(["partials-averaged"])

    assert [(one.stage, one.variant, one.problem) for one in results if not one.holds] == [
        ("attempt", 1, "check='two workers' gave [1, 2]; [1, 3] was recorded")
    ]
    assert all(result.holds for result in verify(["partials-averaged"], against_records=False))


def test_what_holds_is_recorded_and_read_back(tmp_path, monkeypatch):
    written = {}
    monkeypatch.setattr(VERIFY, "write_recordings", written.__setitem__)
    results = verify(["partials-averaged"], against_records=False)

    assert record(results) == ["partials-averaged"]
    assert written == {"partials-averaged": read_recordings("partials-averaged")}


def test_what_does_not_hold_or_is_not_whole_is_not_recorded(monkeypatch):
    written = {}
    monkeypatch.setattr(VERIFY, "write_recordings", written.__setitem__)
    results = verify(["partials-averaged"], against_records=False)

    assert record(results[1:]) == []
    assert record([replace(results[0], problem="a problem"), *results[1:]]) == []
    assert written == {}


def test_an_interrupted_verification_starts_no_more_scripts():
    seen = []

    def interrupt(result):
        seen.append(result)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify(["partials-averaged"], interrupt)

    assert len(seen) == 1


@pytest.mark.parametrize("slug", WITH_CODE)
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_follows_its_rule(slug, stage):
    assert claim_problem(mechanism(slug), stage) == ""


@pytest.mark.parametrize(
    ("stage", "wrong"), [("broken", {"followed": ("sum",)}), ("attempt", {"attempt_follows": "mean"})]
)
def test_negative_control_a_misnamed_rule_is_caught(stage, wrong):
    entry = replace(mechanism("partials-averaged"), **wrong)

    assert f"{stage} doesn't follow {entry.rule_of(stage)}: " in claim_problem(entry, stage)
    assert not verify_stage(entry, stage, 1).holds


def test_negative_control_a_wrong_repair_is_caught():
    entry = mechanism("partials-averaged")
    wrong = replace(entry, stages=replace(entry.stages, fixed=fixed))

    result = verify_stage(wrong, "fixed", 3)

    assert result.exit_code == 1
    assert result.problem.startswith("fixed fails: two workers, ")


def fixed(parts):
    """A repair that sums and then halves."""
    return [sum(column) / 2 for column in zip(*parts, strict=True)]


def test_negative_control_a_broken_stage_that_passes_is_caught():
    entry = mechanism("partials-averaged")
    right = replace(entry, stages=replace(entry.stages, broken=broken))

    assert verify_stage(right, "broken", 1).problem == "broken should fail a check and exit with 1; exit code 0"


def broken(parts):
    """A stage that isn't broken."""
    return [sum(column) for column in zip(*parts, strict=True)]


def test_negative_control_a_stage_that_raises_is_caught():
    entry = mechanism("partials-averaged")
    raising = replace(entry, stages=replace(entry.stages, attempt=attempt))

    assert "the script gave no observations" in verify_stage(raising, "attempt", 1).problem
    assert "ZeroDivisionError" in verify_stage(raising, "attempt", 1).problem


def attempt(parts):
    """A stage that raises."""
    return 1 / 0


@pytest.mark.parametrize(
    ("stage", "variant", "message"),
    [
        ("mended", 1, r"^stage='mended' is not known; expected one of: broken, attempt, fixed\.$"),
        ("fixed", 6, r"^variant=6 is not known; expected a number from 1 to 5\.$"),
    ],
)
def test_a_script_that_cannot_be_written_is_refused(stage, variant, message):
    with pytest.raises(InvalidArgument, match=message):
        render(mechanism("partials-averaged"), stage, variant)


def test_an_entry_without_code_has_no_script():
    bare = replace(mechanism("partials-averaged"), stages=None)

    with pytest.raises(
        InvalidArgument, match=r"^slug='partials-averaged' is an entry without code; there is no script to write\.$"
    ):
        render(bare, "broken")


def test_a_zero_count_row_is_skipped_even_where_it_is_nan_or_empty():
    solve = mechanism("replica-means-ignore-counts").stages.fixed

    assert solve([([float("nan")], 0), ([2], 2)]) == [2]
    assert solve([([], 0), ([2], 2)]) == [2]
    assert solve([([float("nan")], 0)]) == []


def test_negative_control_a_script_that_writes_a_file_is_caught(monkeypatch):
    monkeypatch.setattr(VERIFY, "render", lambda *_: "open('notes', 'w')")

    result = verify_stage(mechanism("partials-averaged"), "broken", 1)

    assert (result.exit_code, result.recording) == (None, None)
    assert result.problem == "stopped: the script writes to the disk: open('notes')"
