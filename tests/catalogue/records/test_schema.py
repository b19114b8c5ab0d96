"""The published schema accepts both forms of a record, and refuses what it can see is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from catalogue.records.samples import member_document
from failuremap.catalogue.records import SCHEMA_VERSION, open_form
from failuremap.catalogue.records.schema import schema, schema_text

PUBLISHED = Path(__file__).parents[3] / "docs" / "record.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(schema())


def test_both_forms_follow_the_schema():
    jsonschema.Draft202012Validator.check_schema(schema())

    assert list(VALIDATOR.iter_errors(member_document())) == []
    assert list(VALIDATOR.iter_errors(open_form(member_document()))) == []


def test_the_published_schema_is_this_one():
    assert PUBLISHED.read_text(encoding="utf-8") == schema_text()
    assert json.loads(schema_text())["properties"]["schema_version"]["const"] == SCHEMA_VERSION


def test_what_the_open_form_lacks_is_not_required():
    required = schema()["required"]

    assert {"repair", "harness"} & set(required) == set()
    assert {"id", "sha256", "withdrawn", "member_only"} <= set(required)


@pytest.mark.parametrize(
    "wrong", [{"colour": "red"}, {"id": "FM-1"}, {"variant": "1"}, {"checks": 0}, {"sha256": "abc"}, {"related": None}]
)
def test_negative_control_a_wrong_record_is_refused(wrong):
    assert not VALIDATOR.is_valid({**member_document(), **wrong})


def test_negative_control_a_missing_field_is_refused():
    document = member_document()
    del document["abstract"]

    assert not VALIDATOR.is_valid(document)
