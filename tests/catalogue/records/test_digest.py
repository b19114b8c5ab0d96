"""The canonical form and the digest: the same bytes from Python and from JavaScript, for both forms of a record."""

from __future__ import annotations

import hashlib
import json
import random
import struct
import subprocess

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from catalogue.records.samples import member_document
from failuremap.catalogue.records import (
    PUBLISHED_KEY,
    WITHHELD,
    canonical,
    open_commitment,
    open_form,
    record_digest,
    salt_of,
)
from failuremap.catalogue.records.digest import value_at
from failuremap.errors import RecordError

# What a browser needs to recompute a digest; SubtleCrypto has the SHA-256.
JAVASCRIPT = """
const canonical = v => v === null || typeof v !== "object" ? JSON.stringify(v)
  : Array.isArray(v) ? "[" + v.map(canonical).join(",") + "]"
  : "{" + Object.keys(v).sort().map(k => JSON.stringify(k) + ":" + canonical(v[k])).join(",") + "}";
const without = (v, [first, ...rest]) => {
  if (!(first in v)) return v;
  const {[first]: inner, ...others} = v;
  return rest.length ? {...others, [first]: without(inner, rest)} : others;
};
const digest = record => crypto.createHash("sha256").update(canonical(
  [...record.member_only.fields, "member_only.salts", "member_only.canary", "sha256"]
    .reduce((left, path) => without(left, path.split(".")), record))).digest("hex");
const crypto = require("crypto"), given = JSON.parse(require("fs").readFileSync(0, "utf8"));
"""


def in_node(node: str, expression: str, given: object) -> str:
    """Evaluate an expression of `given` in JavaScript."""
    script = JAVASCRIPT + f"process.stdout.write({expression})"
    done = subprocess.run([node, "-e", script], input=json.dumps(given), capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "0"),
        (2.0, "2"),
        (1e21, "1e+21"),
        (1e-7, "1e-7"),
        (0.000001, "0.000001"),
        (333333333.33333329, "333333333.3333333"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740991, "9007199254740991"),
        ([True, None, ""], '[true,null,""]'),
        ('€$\u000f\nA\'B"\\\\"/\u007f', '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/\u007f"'),
        # In the order of UTF-16: the emoji, which begins with a surrogate, comes before U+FB33.
        ({"€": 1, "\r": 2, "\ufb33": 3, "1": 4, "😀": 5, "\u0080": 6, "ö": 7}, None),
    ],
)
def test_the_canonical_form_is_that_of_the_rfc(value, text):
    keys = ["\r", "1", "\u0080", "ö", "€", "😀", "\ufb33"]
    wanted = (
        text
        if text is not None
        else "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{value[k]}" for k in keys) + "}"
    )

    assert canonical(value).decode() == wanted


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r"^no canonical JSON \(RFC 8785\): nan is not representable in JCS; write .* as a string\.$"),
        (float("-inf"), "-inf is not representable"),
        (2**53, "9007199254740992 exceeds safe integer domain"),
        ("\ud800", "non-UTF-8"),
        ({1: 2}, "object keys must be strings"),
        ({1, 2}, "unsupported type"),
    ],
)
def test_what_has_no_canonical_form_is_refused(value, message):
    with pytest.raises(RecordError, match=message):
        canonical(value)


def test_nesting_beyond_reason_is_refused():
    value: list = []
    for _ in range(100_000):
        value = [value]

    with pytest.raises(RecordError, match=r"^no canonical JSON .*nested too deeply\.$"):
        canonical(value)


def test_a_browser_writes_numbers_as_we_do(require):
    source = random.Random(0)
    bits = [source.getrandbits(64) for _ in range(2000)]
    values = [value for value in struct.unpack("2000d", struct.pack("2000Q", *bits)) if value - value == 0]
    values += [source.uniform(-1, 1) * 10.0**e for e in range(-30, 30)] + [float(10**e) for e in range(25)]

    assert in_node(require("node"), "canonical(given)", values) == canonical(values).decode()


@pytest.mark.parametrize("form", ["open", "member"])
def test_a_browser_gets_the_same_digest(require, form):
    document = member_document()
    given = document if form == "member" else open_form(document)

    assert in_node(require("node"), "digest(given)", given) == document["sha256"]


def test_negative_control_the_browser_notices_a_changed_word(require):
    document = member_document()
    document["abstract"] += " "

    assert in_node(require("node"), "digest(given)", document) != document["sha256"]


def test_both_forms_have_one_digest():
    document = member_document()

    assert record_digest(document) == record_digest(open_form(document)) == document["sha256"]


def test_the_open_form_holds_nothing_that_is_withheld():
    document = member_document()
    opened = open_form(document)
    text = json.dumps(opened)

    assert [path for path in WITHHELD if value_at(opened, path) is not None] == []
    assert set(opened["member_only"]) == {"stages", "fields", "note", "commitments"}
    assert [salt for salt in document["member_only"]["salts"].values() if salt in text] == []
    assert document["repair"] not in text
    assert document["implementations"]["fixed"]["sha256"] not in text


def test_the_original_stays_as_it_is():
    document = member_document()

    open_form(document)

    assert document == member_document()


@pytest.mark.parametrize("path", WITHHELD)
def test_a_commitment_opens_with_its_salt_and_value(path):
    document = member_document()
    salts, commitments = document["member_only"]["salts"], document["member_only"]["commitments"]

    assert open_commitment(path, salts[path], value_at(document, path)) == commitments[path]
    assert salts[path] == salt_of(document["id"], path)


def test_negative_control_another_value_salt_or_path_does_not_open_it():
    right = open_commitment("repair", "salt", "value")

    assert right != open_commitment("repair", "salt", "other")
    assert right != open_commitment("repair", "other", "value")
    assert right != open_commitment("harness", "salt", "value")


def test_salts_differ_by_case_path_and_key():
    salts = {salt_of("FM-001-1", "repair"), salt_of("FM-001-2", "repair"), salt_of("FM-001-1", "harness")}

    assert len(salts | {salt_of("FM-001-1", "repair", b"another key")}) == 4
    assert salt_of("FM-001-1", "repair") == salt_of("FM-001-1", "repair", PUBLISHED_KEY)


def test_a_digest_is_the_sha256_of_the_canonical_bytes():
    document = member_document()
    opened = {name: value for name, value in open_form(document).items() if name != "sha256"}

    assert hashlib.sha256(canonical(opened)).hexdigest() == document["sha256"]


numbers = st.floats() | st.integers() | st.integers(-(2**54), 2**54) | st.floats(-1e-3, 1e-3) | st.floats(1e14, 1e22)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner).map(tuple),
)


@given(values)
def test_the_fast_way_writes_what_the_reference_writes(value):
    try:
        wanted = rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        with pytest.raises((RecordError, UnicodeEncodeError)):
            canonical(value)
    else:
        assert canonical(value) == wanted
