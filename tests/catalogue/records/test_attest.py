"""The attestation of a run stands beside the record: it names it by its digest, and holds all that changes."""

from __future__ import annotations

from dataclasses import replace

from catalogue.records.samples import member_document
from failuremap.catalogue.records import case_from_document
from failuremap.catalogue.records.attest import Environment, statement

HERE = Environment("CPython 3.12.1", "Linux x86_64", "2026-11-30T08:00:00+00:00")


def test_a_statement_names_the_record_by_its_digest():
    case = case_from_document(member_document())

    made = statement(case, HERE, {"broken": 0.01234})

    assert made["_type"] == "https://in-toto.io/Statement/v1"
    assert made["subject"] == [{"name": "FM-001-1", "digest": {"sha256": case.sha256}}]
    assert made["predicate"] == {
        "result": "as recorded",
        "stages": {"broken": {"duration_s": 0.012}},
        "python": "CPython 3.12.1",
        "machine": "Linux x86_64",
        "started": "2026-11-30T08:00:00+00:00",
        "box": "interpreter",
    }


def test_both_forms_are_the_same_subject_on_every_machine():
    case = case_from_document(member_document())
    elsewhere = replace(HERE, machine="Darwin arm64", started="2030-01-01T00:00:00+00:00")

    subjects = [statement(it, where, {})["subject"] for it in (case, case.to_open()) for where in (HERE, elsewhere)]

    assert subjects == [subjects[0]] * 4


def test_this_process_is_described_without_its_name():
    here = Environment.here("2026-11-30T08:00:00+00:00")

    assert here.python.split()[1].count(".") == 2
    assert len(here.machine.split()) == 2
