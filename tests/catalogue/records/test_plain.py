"""Plain JSON: what readers differ on is named by its place, and a name is shown so that it can be read."""

from __future__ import annotations

import json

import pytest

from catalogue.records.samples import member_document
from failuremap.catalogue.records import case_from_json, read_json
from failuremap.catalogue.records.plain import clipped, field_name, unfit
from failuremap.errors import RecordError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": [0, 1e400]}', "a.1 is a number beyond 1.8e308; write it as a string."),
        ('{"a": -1e400}', "a is a number beyond 1.8e308; write it as a string."),
        ('{"a": {"b": "\\ud800"}}', "a.b has half of a surrogate pair, which is no character."),
        ('{"a": {"\\udfff": 1}}', "a.'\\udfff' has half of a surrogate pair in its name."),
        ('{"a": ' + "[" * 65 + "]" * 65 + "}", "a.0.0.0 is nested more than 64 deep."),
    ],
)
def test_what_readers_of_json_differ_on_is_named_by_its_field(text, message):
    with pytest.raises(RecordError) as refused:
        read_json(text, "given.json")

    assert str(refused.value) == f"record='given.json': {message}"


def test_negative_control_what_every_reader_takes_is_read():
    text = '{"a": [1e308, -0.0, "\\ud83d\\ude00"], "b": ' + "[" * 60 + "]" * 60 + "}"

    assert list(unfit(json.loads(text))) == []
    assert read_json(text, "given.json")["a"] == [1e308, -0.0, "\U0001f600"]


@pytest.mark.parametrize("key", ["", "a\nb", "\x1b[31m", "a b", "\u202e"])
def test_a_field_of_a_strange_name_is_quoted(key):
    document = {**member_document(), key: 1}

    with pytest.raises(RecordError) as refused:
        case_from_json(json.dumps(document), "given.json")

    assert str(refused.value) == f"record='given.json': {key!r} is no field of this schema."


def test_a_plain_name_is_not_quoted():
    assert field_name(["verification", "broken", 0, "*", "a-b"]) == "verification.broken.0.*.a-b"


def test_a_long_text_is_shown_by_its_ends():
    shown = clipped("a" * 10_000 + "z")

    assert (len(shown), shown[:1], shown[-1:], " ... " in shown) == (455, "a", "z", True)
    assert clipped("a" * 450) == "a" * 450


def test_an_error_about_a_large_value_can_be_read():
    document = member_document()
    document["verification"]["broken"]["observations"][0]["actual"] = 10**4000

    with pytest.raises(
        RecordError, match=r"beyond 2\^53 - 1, where readers of JSON differ; write it as a string\.$"
    ) as no:
        case_from_json(json.dumps(document), "given.json")

    assert len(str(no.value)) < 600
