"""Reading a record: what it says of itself is checked, and what is wrong is one line with the record and the field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from catalogue.records.samples import changed, member_document, script_of
from failuremap.catalogue.records import Case, case_from_document, case_from_json, open_form, read_json
from failuremap.errors import RecordError


def test_both_forms_read_back_as_they_were_written():
    document = member_document()
    case, opened = case_from_json(json.dumps(document)), case_from_json(json.dumps(open_form(document)))

    assert case.document() == document
    assert case.is_member_form and not opened.is_member_form
    assert case.to_open() == opened
    assert case_from_json(case.to_json()) == case
    assert case_from_json(opened.to_json()) == opened
    assert list(json.loads(opened.to_json()))[:3] == ["schema_version", "id", "aliases"]


def test_a_record_is_not_changed_later():
    case = case_from_document(member_document())

    with pytest.raises(ValueError, match="frozen"):
        case.title = "another"


def put(path: str, value: Any):
    """Return a change that puts a value at a dotted path."""

    def change(document: dict[str, Any]) -> None:
        *names, last = path.split(".")
        for name in names:
            document = document[int(name) if isinstance(document, list) else name]
        document[int(last) if isinstance(document, list) else last] = value

    return change


def drop(path: str):
    """Return a change that removes what stands at a dotted path."""

    def change(document: dict[str, Any]) -> None:
        *names, last = path.split(".")
        for name in names:
            document = document[name]
        del document[last]

    return change


def relabel(document: dict[str, Any]) -> None:
    """Give the second check of broken the label of the first, in what it printed too."""
    run = document["verification"]["broken"]
    run["observations"][1]["check"] = run["observations"][0]["check"]
    reprint(run)


def reprint(run: dict[str, Any]) -> None:
    """Let a run's stdout be the report of its observations."""
    run["passed"] = all(seen["passed"] for seen in run["observations"])
    run["stdout"] = json.dumps({"observations": run["observations"], "passed": run["passed"]}) + "\n"


def shorten(document: dict[str, Any]) -> None:
    """Take a check from the attempt."""
    run = document["verification"]["attempt"]
    run["observations"].pop()
    reprint(run)


def swap(document: dict[str, Any]) -> None:
    """Change the order of two checks of the repair."""
    run = document["verification"]["fixed"]
    run["observations"][0], run["observations"][1] = run["observations"][1], run["observations"][0]
    reprint(run)


def expect_other(document: dict[str, Any]) -> None:
    """Let the repair expect what it gives, where the others expect something else."""
    run = document["verification"]["fixed"]
    run["observations"][0] |= {"actual": [1], "expected": [1]}
    reprint(run)


def repair_broken(document: dict[str, Any]) -> None:
    """Let the broken form have the runs of the repair."""
    document["verification"]["broken"] = document["verification"]["fixed"]


def break_fixed(document: dict[str, Any]) -> None:
    document["verification"]["fixed"] = document["verification"]["broken"]


def pass_wrongly(document: dict[str, Any]) -> None:
    """Say of a failed check that it passed."""
    run = document["verification"]["broken"]
    run["observations"][0]["passed"] = True
    reprint(run)


WRONG = {
    "a missing field": (drop("abstract"), "abstract is missing"),
    "a missing field within": (drop("provenance.license"), "provenance.license is missing"),
    "an unknown field": (put("colour", "red"), "colour is no field of this schema"),
    "an unknown field within": (put("contract.colour", "red"), "contract.colour is no field of this schema"),
    "another version": (put("schema_version", "2.0.0"), "schema_version='2.0.0': input should be '1.0.0'"),
    "a number as text": (put("variant", "1"), "variant='1': input should be a valid integer"),
    "an empty text": (put("failure", ""), "failure='': string should have at least 1 character"),
    "a strange id": (put("id", "FM-1-1"), "id='FM-1-1': string should match pattern '^FM-[0-9]{3}-[1-5]$'"),
    "an id of another variant": (put("variant", 2), "variant=2, but id='FM-001-1' is that of variant 1"),
    "a day that is none": (put("published", "2026-02-30"), "published: day is out of range for month"),
    "a change before its making": (
        put("modified", "2020-01-01"),
        "modified='2020-01-01' is before published='2026-11-30'",
    ),
    "no promise": (
        lambda it: it["rules"].update(promised=None, law=None),
        "rules: promised and law are both null; a contract states one of them",
    ),
    "another licence": (put("provenance.license", "MIT"), "provenance.license='MIT': input should be 'CC0-1.0'"),
    "an address that is none": (
        put("references.0.url", "http://example.org"),
        "references.0.url='http://example.org': string should match pattern",
    ),
    "a hash of another source": (
        put("implementations.broken.sha256", "0" * 64),
        f"implementations.broken: sha256='{'0' * 64}' is not that of the source, which is '463bff61",
    ),
    "a package": (
        put("implementations.attempt", script_of("import json, numpy.linalg")),
        "implementations.attempt: source imports 'numpy'; a script uses the standard library only",
    ),
    "a neighbour": (
        put("implementations.attempt", script_of("from . import x")),
        "implementations.attempt: source imports '.'; a script uses the standard library only",
    ),
    "no Python": (
        put("implementations.attempt", script_of("def f(:")),
        "implementations.attempt: source is no Python: invalid syntax",
    ),
    "a huge source": (
        put("implementations.attempt", script_of("#" * 70_000)),
        "implementations.attempt.source='####",
    ),
    "an impossible exit code": (
        put("verification.broken.exit_code", 3),
        "verification.broken.exit_code=3: input should be 0 or 1",
    ),
    "an exit code that is a truth": (
        put("verification.broken.exit_code", True),
        "verification.broken.exit_code: true is no number; expected 0 or 1",
    ),
    "an exit code that contradicts": (
        put("verification.broken.exit_code", 0),
        "verification.broken: exit_code=0 with passed=False; 0 says that all checks passed",
    ),
    "a pass that contradicts": (
        put("verification.broken.passed", True),
        "verification.broken: passed=True, but not all observations passed",
    ),
    "an observation that contradicts": (
        pass_wrongly,
        "verification.broken.observations.0: passed=True of check='unequal batch sizes', but actual=[2.0, 3.0] and",
    ),
    "a label twice": (
        relabel,
        "verification.broken: observations: check='unequal batch sizes' is there twice; a label names one check",
    ),
    "no observation": (
        put("verification.broken.observations", []),
        "verification.broken.observations=[]: tuple should have at least 1 item",
    ),
    "another report": (
        put("verification.broken.stdout", '{"observations": [], "passed": false}'),
        "verification.broken: stdout is not the JSON of the observations",
    ),
    "no report": (
        put("verification.broken.stdout", "hello"),
        "verification.broken: stdout is no JSON report: Expecting value",
    ),
    "a broken form that passes": (
        repair_broken,
        "verification.broken.passed=True; broken has to fail a check",
    ),
    "a repair that fails": (break_fixed, "verification.fixed.passed=False; fixed has to pass every check"),
    "a wrong number of checks": (put("checks", 8), "checks=8, but verification.broken has 7 observations"),
    "a check too few": (shorten, "checks=7, but verification.attempt has 6 observations"),
    "other checks": (swap, "verification.fixed has the checks ['equal sizes', 'unequal batch sizes', "),
    "other expectations": (
        expect_other,
        "verification.fixed expects [1] of check='unequal batch sizes'; verification.broken [2.5, 3.5]",
    ),
    "a clause of no check": (
        put("contract.clauses.0.checks", ["nothing"]),
        "contract.clauses: id='weighs-by-count' names check='nothing', which no stage has",
    ),
    "half a repair": (
        drop("verification.fixed"),
        "verification.fixed is missing, but implementations.fixed is there; a record holds all that is withheld",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_record_that_is_wrong_is_refused_by_its_field(what):
    change, message = WRONG[what]

    with pytest.raises(RecordError) as refused:
        case_from_document(changed(change), "planted.json")

    assert str(refused.value).startswith(f"record='planted.json': {message}")
    assert str(refused.value).endswith(".") and "\n" not in str(refused.value)


UNSIGNED = {
    "a digest of something else": (
        put("title", "Another title"),
        r"sha256='\w{64}' is not the digest of the record, which is '\w{64}'\.",
    ),
    "a repair that was changed later": (
        put("repair", "Another repair."),
        r"member_only\.commitments: that of 'repair' is not the one of this value and salt\.",
    ),
    "a salt too few": (
        drop("member_only.salts.repair"),
        r"member_only\.salts=\['harness', 'impl.*'\]; expected one for each of \['impl",
    ),
    "a commitment too few": (
        drop("member_only.commitments.repair"),
        r"member_only: commitments=\['harness', 'impl.*'\]; expected one for each of \['impl",
    ),
    "other fields withheld": (
        put("member_only.fields", ["repair"]),
        r"member_only: fields=\['repair'\]; this schema withholds \['impl",
    ),
    "no salts": (
        drop("member_only.salts"),
        r"member_only\.salts stands in the member form and nowhere else, with impl",
    ),
    "a number that is none": (
        put("verification.broken.observations.0.actual", [1e999]),
        r"verification\.broken\.observations\.0\.actual: inf is no number of JSON; write it as a string\.",
    ),
    "a number that readers differ on": (
        put("verification.broken.observations.0.actual", {"deep": [2**53]}),
        r"verification\.broken\.observations\.0\.actual: 9007199254740992 is beyond 2\^53 - 1, where readers",
    ),
}


@pytest.mark.parametrize("what", UNSIGNED)
def test_a_record_that_was_changed_after_it_was_signed_is_refused(what):
    change, message = UNSIGNED[what]

    with pytest.raises(RecordError, match=f"^record='FM-001-1': {message}"):
        case_from_document(changed(change, signed=False))


def test_an_open_form_with_salts_is_refused():
    document = member_document()
    opened = open_form(document)
    opened["member_only"]["salts"] = document["member_only"]["salts"]

    with pytest.raises(RecordError, match=r"^record='FM-001-1': member_only\.salts stands in the member form and"):
        case_from_document(opened)


def test_a_null_in_place_of_what_is_withheld_is_nothing():
    opened = open_form(member_document())

    assert case_from_document({**opened, "repair": None}).document() == opened


def test_a_record_may_promise_a_law_and_no_rule():
    def change(document: dict[str, Any]) -> None:
        document["rules"] = {"promised": None, "law": "The norm is at most 1.", "broken": None, "attempt": None}
        document["rules"]["also_followed"] = []

    assert case_from_document(changed(change)).rules.law == "The norm is at most 1."


TEXTS = {
    "no JSON": ("{", r"^record='a\.json' is no JSON: Expecting property name .*\.$"),
    "NaN": ('{"a": NaN}', r"^record='a\.json': NaN is no JSON; write such a number as a string\.$"),
    "an infinity": ('{"a": -Infinity}', r"^record='a\.json': -Infinity is no JSON"),
    "a key twice": ('{"a": 1, "b": {"c": 1, "c": 2}}', r"^record='a\.json': the field 'c' is there twice in one"),
    "an array": ("[]", r"^record='a\.json' is a JSON list; expected an object\.$"),
    "depth": ("[" * 100_000, r"^record='a\.json' is no JSON: maximum recursion depth exceeded"),
    "a huge integer": ('{"a": ' + "9" * 5000 + "}", r"^record='a\.json' is no JSON: Exceeds the limit"),
    "half a surrogate pair": ('{"schema_version": "\\ud800"}', r"^record='a\.json'"),
}


@pytest.mark.parametrize("what", TEXTS)
def test_a_text_that_is_no_record_is_refused(what):
    text, message = TEXTS[what]

    with pytest.raises(RecordError, match=message):
        case_from_json(text, "a.json")


def test_a_text_beyond_the_limit_is_refused_unread():
    with pytest.raises(RecordError, match=r"^record='a\.json': 21 characters; a record has at most 20\.$"):
        read_json("not even JSON, really", "a.json", max_bytes=20)


def test_a_hundred_megabytes_are_refused():
    with pytest.raises(RecordError, match=r"100000000 characters; a record has at most 4194304\.$"):
        case_from_json(" " * 100_000_000, "a.json")


def test_only_a_case_comes_out():
    assert isinstance(case_from_document(member_document()), Case)


def test_many_fields_are_read_in_the_time_of_one_pass():
    text = json.dumps({f"field{number}": number for number in range(200_000)})

    with pytest.raises(RecordError, match=r"^record='a\.json': the field 'last' is there twice in one object\.$"):
        read_json(text[:-1] + ', "last": 1, "last": 2}', "a.json", max_bytes=len(text) + 99)
