"""Records of other makers: every claim is checked, and what is wrong is named by record and field."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalogue.exchange.making import case_of
from failuremap.catalogue.exchange import stage_claims
from failuremap.catalogue.exchange.as_failure_map import failure_map_record
from failuremap.catalogue.exchange.failure_map import parse_record, write_record
from failuremap.catalogue.exchange.importing import Imported, import_file, import_files
from failuremap.errors import RecordError

SEEDS = Path(__file__).parents[4] / "shared" / "seeds"
needs_seeds = pytest.mark.skipif(not SEEDS.is_dir(), reason="the published records are not beside the checkout")

UNCHECKABLE = {
    "verified", "verification.fixed", "verification.*.elapsed_ms", "provenance.generated_at", "provenance.python",
    "provenance.created_by", "provenance.seed", "sha256",
}  # fmt: skip


@pytest.fixture(scope="session")
def record() -> dict[str, Any]:
    """An open record in the form failure-map, as our own exporter writes it."""
    return json.loads(write_record(failure_map_record(case_of("replica-means-ignore-counts").to_open(), "open")))


def imported(folder: Path, document: Any, name: str = "given.json") -> Imported:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return import_file(path)


def failing(one: Imported) -> dict[str, str]:
    return {claim.claim: claim.reason for claim in one.claims if claim.result == "fails"}


def with_source(document: dict[str, Any], source: str) -> dict[str, Any]:
    """Give a record another broken script, rightly hashed."""
    document["implementations"]["broken"] = {"sha256": hashlib.sha256(source.encode()).hexdigest(), "source": source}
    return document


def test_our_own_export_holds_what_it_claims(tmp_path, record):
    one = imported(tmp_path, record)

    assert (one.record, one.form, failing(one)) == ("FM-001-1", "failure-map", {})
    assert {claim.claim for claim in one.claims if claim.result == "cannot be checked"} == UNCHECKABLE


def test_a_member_record_holds_what_it_claims(tmp_path):
    member = write_record(failure_map_record(case_of("replica-means-ignore-counts"), "member"))

    one = imported(tmp_path, member)

    assert failing(one) == {}
    assert "verification.fixed: re-run" in {claim.claim for claim in one.claims}
    assert "verified" in {claim.claim for claim in one.claims if claim.result == "holds"}


@needs_seeds
def test_the_published_record_holds_what_it_claims_and_comes_back_byte_for_byte():
    text = (SEEDS / "FA-99241.json").read_text(encoding="utf-8")

    one = import_file(SEEDS / "FA-99241.json")

    assert (one.record, one.form, failing(one)) == ("FA-99241", "failure-map", {})
    assert {claim.claim for claim in one.claims if claim.result == "cannot be checked"} == UNCHECKABLE
    assert write_record(parse_record(text, "seed")) == text


def test_a_record_comes_back_byte_for_byte(record):
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))

    assert write_record(parse_record(text, "ours")) == text


def change(*path: str | int, to: Any) -> Callable[[dict[str, Any]], Any]:
    def changed(document: dict[str, Any]) -> None:
        inner: Any = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = to

    return changed


WRONG = {
    "hash": (
        change("implementations", "broken", "sha256", to="0" * 64),
        {"implementations.broken.sha256": "sha256='0000"},
    ),
    "count": (
        change("checks", to=8),
        {
            "verification.broken.observations": "checks=8, but there are 7",
            "verification.attempt.observations": "checks",
        },
    ),
    "exit code against passed": (
        change("verification", "broken", "exit_code", to=0),
        {
            "verification.broken.exit_code": "exit_code=0, but not all",
            "verification.broken: re-run": "here its exit code is 1",
        },
    ),
    "passed against observations": (
        change("verification", "broken", "passed", to=True),
        {"verification.broken.passed": "passed=True, but not all checks passed"},
    ),
    "stdout": (
        change("verification", "attempt", "stdout", to="{}\n"),
        {"verification.attempt.stdout": "it isn't the JSON report of the observations"},
    ),
    "stderr": (
        change("verification", "attempt", "stderr", to="a warning"),
        {"verification.attempt: re-run": "here it leaves stderr=''"},
    ),
    "a value": (
        change("verification", "broken", "observations", 0, "actual", to=[2.0, 4.0]),
        {"verification.broken.stdout": "it isn't", "verification.broken: re-run": "here it gives {"},
    ),
    "an outcome": (
        change("verification", "broken", "observations", 0, "passed", to=True),
        {
            "verification.broken.observations.passed": "check='unequal batch sizes' is said to have passed: actual=",
            "verification.broken.stdout": "it isn't",
            "verification.broken: re-run": "here it gives {",
        },
    ),
    "variant": (change("variant", to=2), {"variant": "variant=2, but title='Replica"}),
    "signature": (
        change("contract_signature", to="parts"),
        {"contract_signature": "contract_signature='parts', but solve() takes rows"},
    ),
    "family": (
        change("provenance", "family", to="another"),
        {"provenance.family": "'another', but elsewhere 'replica-means-ignore-counts'"},
    ),
    "split": (
        change("provenance", "split", to="held-back"),
        {"visibility": "public, but split='held-back'; only 'open-access' may be read by anyone"},
    ),
    "visibility": (change("visibility", to="member"), {"visibility": "not public, but it withholds ['fixed']"}),
    "leak": (change("repair", to="divide once"), {"member_only": "repair: said to be withheld, but it is here"}),
    "fields": (
        change("member_only", "fields", to=["repair"]),
        {"member_only.fields": "[], but elsewhere ['implementations.fixed', 'verification.fixed']"},
    ),
    "stages": (
        change("member_only", "stages", to=[]),
        {"stages": "stages shown ['broken', 'attempt'] and withheld []", "visibility": "public, but it withholds []"},
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_false_claim_fails_by_its_name(tmp_path, record, name):
    alter, expected = WRONG[name]
    document = copy.deepcopy(record)
    alter(document)

    found = failing(imported(tmp_path, document))

    assert set(found) == set(expected)
    assert [claim for claim, reason in expected.items() if not found[claim].startswith(reason)] == []


def test_a_script_with_another_harness_is_noticed(tmp_path, record):
    source = record["implementations"]["broken"]["source"].replace("'equal sizes'", "'other sizes'")

    found = failing(imported(tmp_path, with_source(copy.deepcopy(record), source)))

    assert found["implementations"] == "attempt differs from broken in more than solve()"
    assert "verification.broken: re-run" in found


def test_a_script_for_another_n_is_noticed(tmp_path, record):
    source = record["implementations"]["broken"]["source"].replace("N = 1\n", "N = 2\n")

    assert failing(imported(tmp_path, with_source(copy.deepcopy(record), source)))["variant"] == (
        "variant=1, but N = ['2'] in broken"
    )


BAD_SCRIPTS = {
    "prints without end": ("while True:\n    print('x' * 10000)\n", "the script printed more than"),
    "exits early": ("raise SystemExit(1)\n", "here it prints 'nothing'"),
    "takes all memory": ("x = bytearray(1 << 40)\n", "here it prints 'MemoryError"),
}


@pytest.mark.parametrize("name", BAD_SCRIPTS)
def test_a_script_that_misbehaves_is_stopped_and_named(tmp_path, record, name):
    source, reason = BAD_SCRIPTS[name]

    found = failing(imported(tmp_path, with_source(copy.deepcopy(record), source)))

    assert found["verification.broken: re-run"].startswith(reason)


def test_a_script_that_never_ends_is_stopped_and_named(tmp_path, record, monkeypatch):
    monkeypatch.setattr(stage_claims, "TIME_LIMIT_S", 0.5)

    found = failing(imported(tmp_path, with_source(copy.deepcopy(record), "while True:\n    pass\n")))

    assert found["verification.broken: re-run"] == "the script was still running after 0.5 s"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import os\nos.fork()\n", "line 1: import of 'os'"),
        ("import socket\n", "line 1: import of 'socket'"),
        ("open('a', 'w')\n", "line 1: the name 'open'"),
        ("N = 1\nimport json\njson.codecs.open('a', 'w')\n", "line 3: the attribute 'codecs'"),
        ("def f(\n", "it is no Python: "),
    ],
)
def test_a_script_that_would_reach_out_is_not_run(tmp_path, record, monkeypatch, source, reason):
    monkeypatch.chdir(tmp_path)

    one = imported(tmp_path, with_source(copy.deepcopy(record), source))
    rerun = next(claim for claim in one.claims if claim.claim == "verification.broken: re-run")

    assert failing(one)["implementations.broken.source"].startswith(reason)
    assert rerun.result == "cannot be checked"
    assert rerun.reason.startswith(f"it was not run: {reason}")
    assert [path.name for path in tmp_path.iterdir()] == ["given.json"]


def without(*path: str) -> Callable[[dict[str, Any]], Any]:
    def changed(document: dict[str, Any]) -> None:
        inner = document
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]

    return changed


MALFORMED = {
    "an unknown field": (change("extra", to=1), "extra is no field of this schema."),
    "an unknown field inside": (
        change("verification", "broken", "extra", to=1),
        "verification.broken.extra is no field of this schema.",
    ),
    "a missing field": (without("limitations"), "limitations is missing."),
    "a missing stage": (without("verification", "attempt"), "verification.attempt is missing."),
    "a wrong type": (change("variant", to="1"), "variant='1': input should be a valid integer."),
    "a variant that is none": (change("variant", to=6), "variant=6: input should be less than or equal to 5."),
    "an id that is none": (change("id", to="../FA-1"), "id='../FA-1': string should match pattern"),
    "a hash that is none": (change("sha256", to="abc"), "sha256='abc': string should match pattern"),
    "an impossible exit code": (
        change("verification", "broken", "exit_code", to=256),
        "verification.broken.exit_code=256: input should be less than or equal to 255.",
    ),
    "an exit code below 0": (
        change("verification", "broken", "exit_code", to=-9),
        "verification.broken.exit_code=-9: input should be greater than or equal to 0.",
    ),
    "a label twice": (
        change("verification", "broken", "observations", 1, "check", to="unequal batch sizes"),
        "verification.broken.observations: check='unequal batch sizes' is there twice; a label names one check.",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_record_of_another_form_is_one_error_that_names_the_field(tmp_path, record, name):
    alter, message = MALFORMED[name]
    document = copy.deepcopy(record)
    alter(document)

    one = imported(tmp_path, document)

    assert list(failing(one)) == ["form"]
    assert one.claims[0].reason.startswith(f"record='given.json': {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": NaN}', "record='given.json': NaN is no JSON; write such a number as a string."),
        ('{"a": 1, "a": 2}', "record='given.json': the field 'a' is there twice in one object."),
        ('{"a": ', "record='given.json' is no JSON: "),
        ("[1]", "record='given.json' is a JSON list; expected an object."),
        ("[" * 100_000 + "]" * 100_000, "record='given.json' is no JSON: "),
        ('{"a":' * 5_000 + "1" + "}" * 5_000, "record='given.json'"),
        ("{" + '"a": 9' + "9" * 5000 + "}", "record='given.json'"),
        ("", "record='given.json' begins with ''; expected a JSON object, or a page's 'ID / '."),
        ("// a\n{}", "record='given.json' begins with '// a\\n{}'; expected a JSON object, or a page's 'ID / '."),
        ("null", "record='given.json' begins with 'null'; expected a JSON object, or a page's 'ID / '."),
        ("FA-1 / a page", "record='given.json': category: expected a text on the page, and '/' after it."),
        ("\ufeff{}", "record='given.json' begins with a byte order mark. Save it as UTF-8 without one."),
    ],
)
def test_what_is_no_record_is_one_error(tmp_path, text, message):
    one = imported(tmp_path, text)

    assert list(failing(one)) == ["form"]
    assert one.claims[0].reason.startswith(message)


@pytest.mark.parametrize("field", ["actual", "elapsed_ms"])
def test_a_value_that_overflows_is_refused(tmp_path, record, field):
    old, new = {"actual": ("[2.0, 3.0]", "[1e999, 3.0]"), "elapsed_ms": ('_ms": null', '_ms": 1e999')}[field]
    text = json.dumps(record).replace(old, new, 1)

    assert f".{field}" in failing(imported(tmp_path, text))["form"]
    assert "is a number beyond 1.8e308; write it as a string." in failing(imported(tmp_path, text))["form"]


def test_a_value_nested_deeply_is_one_error(tmp_path, record):
    deep = json.dumps(record).replace("[2.0, 3.0]", "[" * 400 + "]" * 400, 1)

    assert failing(imported(tmp_path, deep)) == {
        "form": "record='given.json': verification.broken.observations.0 is nested more than 64 deep."
    }


def test_a_script_nested_deeply_is_one_error(tmp_path, record):
    source = "N = 1\nx = " + "-" * 20_000 + "1\n"

    found = failing(imported(tmp_path, with_source(copy.deepcopy(record), source)))

    assert found["implementations.broken.source"] == "it is no Python: nested too deeply"


def test_it_is_said_whether_the_bytes_of_a_record_come_back(tmp_path, record):
    same = imported(tmp_path, write_record(parse_record(json.dumps(record), "ours")))
    other = imported(tmp_path, json.dumps(record, indent=1))

    assert same.claims[0].reason.endswith("; its bytes are those that export gives back")
    assert other.claims[0].reason.endswith("; export gives its values back, not its layout")
    assert same.holds and other.holds


def test_a_large_claim_is_shown_by_its_ends(tmp_path, record):
    document = {**copy.deepcopy(record), "title": "x" * 60_000}

    assert len(failing(imported(tmp_path, document))["variant"]) < 500


def test_100_mb_are_refused_unread(tmp_path):
    path = tmp_path / "large.json"
    with open(path, "wb") as file:
        file.truncate(100 * 1024 * 1024)

    assert import_file(path).claims[0].reason == (
        "record='large.json': 104857600 bytes; a record has at most 1048576. It was not read."
    )


def test_what_is_not_utf_8_is_refused(tmp_path):
    (tmp_path / "latin.json").write_bytes('{"a": "é"}'.encode("latin-1"))

    assert import_file(tmp_path / "latin.json").claims[0].reason == (
        "record='latin.json' is not UTF-8: byte 7 is 0xe9. Save it as UTF-8."
    )


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    assert "is no regular file; expected a record" in import_file(tmp_path / "pipe").claims[0].reason


def test_a_file_that_is_not_there_is_named(tmp_path):
    reason = import_file(tmp_path / "none.json").claims[0].reason

    assert reason.startswith("record='none.json': ")
    assert "doesn't exist" in reason


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text("{}")
    monkeypatch.setattr(Path, "read_bytes", lambda _: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))

    assert import_file(tmp_path / "a.json").claims[0].reason == "record='a.json' can't be read: Permission denied."


def test_one_unreadable_record_leaves_the_others_checked(tmp_path, record):
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.json").write_text(json.dumps(record))

    first, second, together = import_files([tmp_path / "a.json", tmp_path / "b.json"])

    assert (first.holds, second.holds, together.holds) == (False, True, True)


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (change("family", to="replica-means-ignore-counts"), "id='FM-001-1' is there twice; an id names one record"),
        (change("id", to="FA-1"), ""),
    ],
)
def test_an_id_names_one_record(tmp_path, record, alter, message):
    other = copy.deepcopy(record)
    alter(other)
    (tmp_path / "a.json").write_text(json.dumps(record))
    (tmp_path / "b.json").write_text(json.dumps(other))

    *_, together = import_files([tmp_path / "a.json", tmp_path / "b.json"])

    assert "".join(failing(together).values()) == message


def test_a_family_in_two_groups_is_noticed_over_several_records(tmp_path, record):
    other = {**record, "id": "FA-1", "evaluation_group": "another"}
    (tmp_path / "a.json").write_text(json.dumps(record))
    (tmp_path / "b.json").write_text(json.dumps(other))

    *_, together = import_files([tmp_path / "a.json", tmp_path / "b.json"])

    assert failing(together)["ids and splits"].startswith("family='replica-means-ignore-counts' is in 2 groups")


def test_our_own_record_is_imported_as_it_is(tmp_path):
    case = case_of("replica-means-ignore-counts")

    for form in (case, case.to_open()):
        one = imported(tmp_path, form.to_json())

        assert (one.form, one.record, failing(one)) == ("case", "FM-001-1", {})


def test_our_own_record_with_a_wrong_digest_is_one_error(tmp_path):
    text = case_of("replica-means-ignore-counts").to_json().replace("Each rank's mean", "Every rank's mean", 1)

    one = imported(tmp_path, text)

    assert list(failing(one)) == ["form"]
    assert one.claims[0].reason.startswith("record='given.json': sha256=")


def test_the_form_is_not_guessed_from_the_name(tmp_path, record):
    assert imported(tmp_path, record, "given.page.txt").form == "failure-map"


def test_parse_record_names_the_record():
    with pytest.raises(RecordError, match=r"^record='mine' is a JSON int; expected an object\.$"):
        parse_record("1", "mine")
