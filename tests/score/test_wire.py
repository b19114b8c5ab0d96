"""What crosses the wall of the box comes out as it went in, and nothing else comes out."""

from __future__ import annotations

import contextlib
import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failuremap.score.wire import (
    BIT_LIMIT,
    DEPTH_LIMIT,
    ITEM_LIMIT,
    WireError,
    decode,
    encode,
    pack,
    read_line,
    unpack,
    write_line,
)

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.fractions(), st.text(max_size=5)
)
keys = st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
    ),
    max_leaves=20,
)


def across(value: object) -> object:
    return decode(read_line(write_line(encode(value)).rstrip(b"\n")))


def types_of(value: object) -> object:
    if isinstance(value, dict):
        return dict, [types_of(part) for part in value.values()]
    return (type(value), [types_of(part) for part in value]) if isinstance(value, list | tuple) else type(value)


@given(values)
@settings(max_examples=40)
def test_a_value_comes_out_equal_and_of_the_same_types_and_is_one_line_of_ascii(value):
    line = write_line(encode(value))
    out = across(value)

    assert (out, types_of(out)) == (value, types_of(value))
    assert encode(out) == encode(value)
    assert line.isascii()
    assert line.index(b"\n") == len(line) - 1


@pytest.mark.parametrize("number", [math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1])
def test_the_edges_of_float_cross_bit_by_bit(number):
    assert across(number).hex() == number.hex()


def test_nan_crosses():
    assert math.isnan(across(math.nan))


@pytest.mark.parametrize("value", [[1, True, -0.0, (None, {"a": []})], [Fraction(1, 3), 1 << 70]])
def test_what_is_packed_comes_out_the_same(value):
    out = unpack(read_line(write_line(pack(value)).rstrip(b"\n")))

    assert (repr(out), types_of(out)) == (repr(value), types_of(value))


def test_text_that_is_no_utf8_crosses():
    assert across("\ud800\n") == "\ud800\n"


def test_the_order_of_a_dict_crosses():
    assert list(across({"b": 1, "a": 2})) == ["b", "a"]


class AgreeingList(list):
    def __eq__(self, other):
        return True

    __hash__ = None


class OtherFloat(float):
    pass


class OtherInt(int):
    pass


class OtherFraction(Fraction):
    pass


@pytest.mark.parametrize(
    "value",
    [AgreeingList(), OtherFloat(1), OtherInt(1), OtherFraction(1), {1, 2}, b"x", 1j, object(), range(3), len],
    ids=lambda value: type(value).__name__,
)
def test_a_subclass_or_another_type_does_not_cross(value):
    with pytest.raises(WireError) as refused:
        encode([(value,)])

    assert (refused.value.code, refused.value.detail) == ("type", type(value).__name__)


@pytest.mark.parametrize("key", [1, None, (1,), type("Key", (str,), {})()], ids=repr)
def test_a_dict_with_a_key_that_is_no_str_does_not_cross(key):
    with pytest.raises(WireError, match="key"):
        encode([{"a": 0, key: 0}])


def test_a_fraction_of_no_ints_does_not_cross():
    third = Fraction(1, 3)
    third._numerator = OtherInt(1)

    with pytest.raises(WireError, match="type"):
        encode(third)


def nested(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


def test_what_is_nested_to_the_limit_crosses():
    assert across(nested(DEPTH_LIMIT)) == nested(DEPTH_LIMIT)


@pytest.mark.parametrize("depth", [DEPTH_LIMIT + 1, 900])
def test_what_is_nested_deeper_does_not_cross(depth):
    with pytest.raises(WireError, match="depth"):
        encode(nested(depth))


def test_a_list_that_holds_itself_does_not_cross():
    value = []
    value.append(value)

    with pytest.raises(WireError, match="depth"):
        encode(value)


def test_shared_parts_are_counted_as_often_as_they_stand():
    value: list[object] = [0] * 64
    for _ in range(10):
        value = [value] * 64

    with pytest.raises(WireError, match="size"):
        encode(value)


@pytest.mark.parametrize(
    "value",
    [[0] * (ITEM_LIMIT + 1), 1 << BIT_LIMIT, Fraction(1, 1 << BIT_LIMIT)],
    ids=["items", "int", "fraction"],
)
def test_what_is_too_large_does_not_cross(value):
    with pytest.raises(WireError, match="size"):
        encode(value)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff",
        b'"\xc3\xa9"',
        b"{}",
        b"1.5",
        b"NaN",
        b"-Infinity",
        b"[1,",
        b"1 2",
        b"'a'",
        b"[" * 100_000,
        b"9" * 5000,
    ],
    ids=lambda line: str(line[:8]),
)
def test_a_line_that_is_no_tree_is_refused(line):
    with pytest.raises(WireError):
        read_line(line)


@pytest.mark.parametrize(
    "tree",
    [
        [],
        {},
        1.5,
        ["x", 1],
        [["l"]],
        [1, 2],
        ["f"],
        ["f", 1],
        ["f", "one"],
        ["f", "0x1p99999"],
        ["f", "0x1", "0x1"],
        ["i", "12z"],
        ["i", "f" * BIT_LIMIT],
        ["q", "0x1"],
        ["q", "0x1", "0x0"],
        ["d", 1],
        ["d", [1]],
        ["d", [1, 2, 3]],
        ["d", [["l"], 1]],
        ["d", [["d"], 1]],
        ["d", [1, 2]],  # of numbers, thousands can have one hash, and keep the reader for minutes
        2**53,
        nested(DEPTH_LIMIT),
    ],
    ids=lambda tree: json.dumps(tree)[:30],
)
def test_a_tree_that_encode_does_not_make_is_refused(tree):
    with pytest.raises(WireError):
        decode(tree)


@given(st.binary(max_size=60))
@settings(max_examples=40)
def test_whatever_is_read_is_a_tree_or_refused(line):
    with contextlib.suppress(WireError):
        encode(decode(read_line(line)))
