"""A case is built of a mechanism and its recorded runs alone: the same on every day and machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from catalogue.records.samples import SLUG, member_document
from failuremap.catalogue import STAGES, VARIANTS, mechanism, mechanisms, render
from failuremap.catalogue.recording import Recording, read_recordings
from failuremap.catalogue.records.build import Edition, Placement, build_case, harness_source
from failuremap.catalogue.records.digest import sha256_text
from failuremap.errors import InvalidArgument, RecordError

RECORDED = [slug for slug, entry in mechanisms().items() if entry.stages and read_recordings(slug)]


@pytest.mark.parametrize("slug", RECORDED)
def test_every_case_is_a_record_in_both_forms(slug):
    entry, recordings = mechanism(slug), read_recordings(slug)

    built = [build_case(entry, variant, recordings) for variant in VARIANTS]

    assert [case.variant for case in built] == list(VARIANTS)
    assert [case.to_open().sha256 for case in built] == [case.sha256 for case in built]
    assert len({case.sha256 for case in built}) == len(VARIANTS)
    assert len({case.repair for case in built}) == 1


def test_a_case_holds_what_its_entry_says():
    entry, document = mechanism(SLUG), member_document()

    assert (document["id"], document["aliases"], document["family"]) == ("FM-001-1", ["FA-99241"], SLUG)
    assert document["title"] == f"{entry.title} · case 01"
    assert document["contract"]["signature"] == "rows"
    assert document["rules"]["promised"] == {"name": "weighted_mean", "title": "mean over all units", "formula": "n/N"}
    assert document["rules"]["broken"]["name"] == "mean"
    assert document["rules"]["attempt"]["name"] == "count_weighted_over_ranks"
    assert document["references"][2] == {
        "kind": "pull-request",
        "url": "https://github.com/huggingface/transformers/pull/34373",
    }
    assert {stage: document["implementations"][stage]["source"] for stage in STAGES} == {
        stage: render(entry, stage, 1) for stage in STAGES
    }


def test_only_the_first_variant_has_the_alias():
    assert build_case(mechanism(SLUG), 2, read_recordings(SLUG)).aliases == ()


def test_the_harness_is_all_that_a_candidate_is_held_to():
    source = harness_source(mechanism(SLUG).stages)

    assert [line for line in source.splitlines() if line.startswith("def ")] == [
        "def checks(N, solve, check):",
        "def sample(source):",
        "def contributions(rows):",
    ]


def test_another_process_on_another_day_builds_the_same_bytes():
    code = (
        "import time; time.time = lambda: 4e9\n"
        "from failuremap.catalogue.records.build import build_case\n"
        "from failuremap.catalogue.recording import read_recordings\n"
        "from failuremap.catalogue import mechanism\n"
        f"print(build_case(mechanism({SLUG!r}), 1, read_recordings({SLUG!r})).to_json(), end='')"
    )
    environment = {**os.environ, "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7", "LC_ALL": "C", "PYTHONUTF8": "1"}

    built = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)

    assert built.stdout == json.dumps(member_document(), indent=2, ensure_ascii=False) + "\n"


def test_an_edition_decides_salts_canaries_and_placement():
    held = Edition(b"secret", "0" * 8 + "-0000" * 3 + "-" + "0" * 12, place=lambda _: Placement("held-back", "member"))

    case, usual = build_case(mechanism(SLUG), 1, read_recordings(SLUG), held), member_document()

    assert (case.split, case.visibility) == ("held-back", "member")
    assert case.canary.startswith("00000000-")
    assert case.member_only.salts != usual["member_only"]["salts"]
    assert case.sha256 != usual["sha256"]


def recorded(**changes):
    """Return the recordings of the sample with a change to that of broken, N = 1."""
    recordings = dict(read_recordings(SLUG))
    return {**recordings, ("broken", 1): replace(recordings["broken", 1], **changes)}


def test_a_recording_of_another_script_is_refused():
    now = sha256_text(render(mechanism(SLUG), "broken", 1))

    with pytest.raises(RecordError) as refused:
        build_case(mechanism(SLUG), 1, recorded(sha256="0" * 64))

    assert str(refused.value) == (
        f"record='FM-001-1': verification.broken was recorded of another script, sha256='{'0' * 64}'; "
        f"the script is '{now}'. Record it:  failuremap verify FM-001-1 --record"
    )


def test_a_missing_recording_is_refused():
    with pytest.raises(RecordError, match=r"^record='FM-001-1': verification\.broken was not recorded; the script is"):
        build_case(mechanism(SLUG), 1, {})


@pytest.mark.parametrize("stdout", ["", "[]", "{}", "{"])
def test_a_recording_without_a_report_is_refused(stdout):
    with pytest.raises(RecordError, match=r"^record='FM-001-1': verification\.broken\.stdout is no report of a script"):
        build_case(mechanism(SLUG), 1, recorded(stdout=stdout))


def test_a_mechanism_without_a_number_has_no_case():
    with pytest.raises(
        InvalidArgument,
        match=rf"^slug='{SLUG}' has number=0; a case needs a number of 1 or more\.$",
    ):
        build_case(replace(mechanism(SLUG), number=0), 1, {})


def test_an_entry_that_lacks_its_prose_is_refused_by_its_field():
    entry = replace(mechanism(SLUG), relevance="")

    with pytest.raises(RecordError, match=r"^record='FM-001-1': relevance='': string should have at least 1 character"):
        build_case(entry, 1, read_recordings(SLUG))


def test_a_recording_is_of_a_script():
    assert isinstance(read_recordings(SLUG)["fixed", 5], Recording)
