"""Exact values <-> lines of JSON; the only language spoken through the wall of the box.

    null  true  false  "text"  12        as JSON writes them, an int within 2^53
    ["i", "-0x2f"]                       an int beyond
    ["f", "0x1.8p+0"]                    a float; also "inf", "-inf", "nan"
    ["q", "-0x1", "0x3"]                 a Fraction
    ["l", ...]  ["t", ...]               a list, a tuple
    ["d", ["text", value], ...]          a dict, in its own order

The judge's inputs may go into the box as one text in base64 instead, which Python reads far quicker.

Types are exact: a subclass of list or float is none of these, so what is decoded has no behaviour of its own. The
reader trusts nothing that it reads. Standard library only: the box loads this file too, and there each import costs:
`json` and `fractions` bring `re`, and take as long as starting the interpreter; the C half of `json` is all of it that
is used.
"""

from __future__ import annotations

import binascii
import marshal
import sys
from _json import encode_basestring_ascii, make_encoder, make_scanner

TYPE_CHECKING = False  # what checkers of types take as true; `typing` would be one more import
if TYPE_CHECKING:
    from fractions import Fraction
    from typing import Any, NoReturn

DEPTH_LIMIT = 24
ITEM_LIMIT = 1 << 16
"""Values in one line that stand in others."""
BIT_LIMIT = 1 << 14
"""Bits of one int. Sums of floats need 2,200."""
_PLAIN_INT = 1 << 53
EVERY_BIT = 2
"""The version of `marshal` that writes floats in full, and the same value always in the same way."""


class WireError(ValueError):
    """A value or a line is not of this language; `code` is `type`, `key`, `depth`, `size` or `form`."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


def encode(value: object) -> Any:
    """Returns a value as a tree that JSON can write.

    Raises:
        WireError: The value has a part of another type (`detail` names it), or is too deep or too large.

    Example:
        >>> from fractions import Fraction
        >>> encode([1, 0.5, Fraction(1, 3)])
        ['l', 1, ['f', '0x1.0000000000000p-1'], ['q', '0x1', '0x3']]
    """
    return _encoded(value, DEPTH_LIMIT, [ITEM_LIMIT])


def decode(tree: object) -> Any:
    """Returns the value that a tree stands for.

    Raises:
        WireError: The tree is none that `encode` makes.

    Example:
        >>> decode(["t", 1, ["f", "-inf"], ["i", "0x20000000000000"]])
        (1, -inf, 9007199254740992)
    """
    return _decoded(tree, DEPTH_LIMIT, [ITEM_LIMIT])


def text_of(value: Any) -> bytes:
    """Returns a value as bytes that tell True from 1 and 0.0 from -0.0, in a tenth of the time that a line takes.

    Raises:
        WireError: As `encode` does, where the value has a part that is none of Python's own.
    """
    try:
        return marshal.dumps(value, EVERY_BIT)
    except ValueError:  # a Fraction, or what is no value
        return write_line(encode(value))


def pack(value: Any) -> Any:
    """Returns an input of the judge's as one text, which takes a tenth of the time of its tree, or that if it has none.

    Example:
        >>> unpack(pack([1, (0.5, None)]))
        [1, (0.5, None)]
    """
    try:
        return binascii.b2a_base64(marshal.dumps(value, EVERY_BIT), newline=False).decode()
    except ValueError:  # a Fraction
        return encode(value)


def unpack(packed: Any) -> Any:
    """Returns the value that `pack` was given. Only the worker does it: what comes out of a box is never trusted so."""
    return marshal.loads(binascii.a2b_base64(packed)) if type(packed) is str else decode(packed)  # noqa: S302


def write_line(tree: object) -> bytes:
    """Returns a tree as one line of ASCII, its end included."""
    return "".join(_WRITE(tree, 0)).encode("ascii") + b"\n"


def read_line(line: bytes) -> Any:
    """Returns the tree that a line holds.

    Raises:
        WireError: The line is not JSON, or has a float or an object in it.
    """
    try:
        text = line.decode("ascii").rstrip("\n")
        tree, end = _READ(text, 0)
    except (ValueError, RecursionError, StopIteration) as error:
        raise WireError("form", type(error).__name__) from None
    if end != len(text):
        raise WireError("form", "more than one value")
    return tree


def _refuse(_part: object) -> NoReturn:
    raise ValueError


class _Reading:
    """What the scanner asks for; `json.JSONDecoder` has the same."""

    strict = True
    object_hook = None
    parse_int = int
    parse_float = parse_constant = object_pairs_hook = staticmethod(_refuse)
    memo = None


_READ: Any = make_scanner(_Reading())  # type: ignore[arg-type]
_WRITE: Any = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)


def _encoded(value: Any, depth: int, left: list[int]) -> Any:
    """Returns the tree of a value; `left` holds how many values may still come."""
    kind = type(value)
    if kind is float:
        return ["f", value.hex()]
    if kind is int:
        return value if -_PLAIN_INT < value < _PLAIN_INT else ["i", _hex(value)]
    if value is None or kind is bool or kind is str:
        return value
    if kind is not list and kind is not tuple and kind is not dict:
        if kind is _fraction():
            return ["q", _hex(value.numerator), _hex(value.denominator)]
        raise WireError("type", kind.__name__)
    _spend(len(value), depth, left)
    if kind is dict:
        if not all(type(key) is str for key in value):
            raise WireError("key")
        return ["d", *[[key, _encoded(part, depth - 1, left)] for key, part in value.items()]]
    # Floats are nearly all there is.
    parts = [["f", part.hex()] if type(part) is float else _encoded(part, depth - 1, left) for part in value]
    return ["l" if kind is list else "t", *parts]


def _decoded(tree: Any, depth: int, left: list[int]) -> Any:
    kind = type(tree)
    if tree is None or kind is bool or kind is str or (kind is int and -_PLAIN_INT < tree < _PLAIN_INT):
        return tree
    if kind is not list or not tree:
        raise WireError("form")
    tag, *parts = tree
    if tag == "f":
        return _float(parts)
    if tag in ("i", "q"):
        return _number(tag, parts)
    _spend(len(parts), depth, left)
    if tag == "l":
        return [_decoded(part, depth - 1, left) for part in parts]
    if tag == "t":
        return tuple([_decoded(part, depth - 1, left) for part in parts])
    if tag == "d":
        return _dict(parts, depth, left)
    raise WireError("form")


def _fraction() -> Any:
    """Returns the type, where its module has been loaded: without it there is none of its kind."""
    return getattr(sys.modules.get("fractions"), "Fraction", None)


def _float(parts: list[Any]) -> float:
    if len(parts) != 1 or type(parts[0]) is not str:
        raise WireError("form")
    try:
        return float.fromhex(parts[0])
    except (ValueError, OverflowError):
        raise WireError("form") from None


def _number(tag: str, parts: list[Any]) -> int | Fraction:
    if len(parts) != 1 + (tag == "q") or not all(type(part) is str for part in parts):
        raise WireError("form")
    if any(len(part) > BIT_LIMIT // 4 + len("-0x") for part in parts):
        raise WireError("size")
    try:
        numbers = [int(part, 16) for part in parts]
        if tag == "i":
            return numbers[0]
        from fractions import Fraction

        return Fraction(*numbers)
    except (ValueError, ArithmeticError):
        raise WireError("form") from None


def _dict(entries: list[Any], depth: int, left: list[int]) -> dict[str, Any]:
    # Of numbers, whoever wrote the line can choose thousands of one hash, and the dict would take minutes.
    if not all(type(entry) is list and len(entry) == 2 and type(entry[0]) is str for entry in entries):
        raise WireError("form")
    return {key: _decoded(value, depth - 1, left) for key, value in entries}


def _hex(number: Any) -> str:
    if type(number) is not int:
        raise WireError("type", "Fraction")
    if number.bit_length() > BIT_LIMIT:
        raise WireError("size")
    return hex(number)


def _spend(count: int, depth: int, left: list[int]) -> None:
    """Counts what a container holds."""
    left[0] -= count
    if left[0] < 0:
        raise WireError("size")
    if depth == 0:
        raise WireError("depth")
