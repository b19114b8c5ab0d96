"""Python texts as HTML: highlighted, and the difference between two of them."""

from __future__ import annotations

import builtins
import difflib
import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from itertools import accumulate

from markupsafe import Markup

from failuremap.catalogue.mechanism import VARIANTS

_KINDS = {tokenize.COMMENT: "c", tokenize.STRING: "s", tokenize.NUMBER: "m"}
_KEYWORDS = frozenset(keyword.kwlist)
_BUILTINS = frozenset(dir(builtins))
_N_LINE = re.compile(r'^N = <i class="m">(\d)</i>$', re.MULTILINE)
_CONTEXT = 1


@lru_cache(maxsize=1024)
def highlighted(source: str) -> Markup:
    """Returns a Python text with its keywords, texts, numbers, comments and names of functions marked.

    Example:
        >>> highlighted("return 1")
        Markup('<i class="k">return</i> <i class="m">1</i>')
    """
    pieces, end = [], 0
    for start, stop, name in _marks(source):
        pieces += [_plain(source[end:start]), f'<i class="{name}">{_plain(source[start:stop])}</i>']
        end = stop
    return Markup("".join([*pieces, _plain(source[end:])]))  # noqa: S704 (escaped)


def _plain(text: str) -> str:
    return escape(text, quote=False)


def _marks(source: str) -> Iterator[tuple[int, int, str]]:
    """Yields where each marked token starts and stops in the text, and its class; an f-string is one, as it always was.

    Raises:
        tokenize.TokenError: The text is no Python.
    """
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    before, depth, opened = "", 0, 0
    for kind, text, (row, column), (last_row, last_column), _ in tokenize.generate_tokens(io.StringIO(source).readline):
        start, stop = starts[row - 1] + column, starts[min(last_row, len(starts)) - 1] + last_column
        part = tokenize.tok_name[kind]
        if part.endswith("STRING_START"):
            opened, depth = (opened if depth else start), depth + 1
        elif part.endswith("STRING_END"):
            depth -= 1
            if not depth:
                yield opened, stop, "s"
        elif not depth and (name := _class_of(kind, text, before)):
            yield start, stop, name
        before = text


def _class_of(kind: int, text: str, before: str) -> str:
    if kind != tokenize.NAME:
        return _KINDS.get(kind, "")
    if text in _KEYWORDS:
        return "k"
    if before in {"def", "class"}:
        return "f"
    return "b" if text in _BUILTINS and before != "." else ""


def of_variant(html: Markup, variant: int) -> Markup:
    """Returns a highlighted script with another N: nothing else differs between the variants of a stage."""
    return _with_n(html, f'<i class="m">{variant}</i>')


def of_all_variants(html: Markup) -> Markup:
    """Returns a highlighted script whose N is that of the variant which is chosen on the page."""
    numbers = "".join(f'<i class="m of of-{variant}">{variant}</i>' for variant in VARIANTS)
    return _with_n(html, numbers)


def _with_n(html: Markup, number: str) -> Markup:
    return Markup(_N_LINE.sub(f"N = {number}", html, count=1))  # noqa: S704 (markup before and after)


def difference(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yields the lines of two texts around what differs: `del`, `ins` or `same`, and the line; `gap` between places.

    Example:
        >>> list(difference("a\\nb\\nc\\nd\\ne", "a\\nb\\nX\\nd\\ne"))
        [('same', 'b'), ('del', 'c'), ('ins', 'X'), ('same', 'd')]
    """
    old, new = before.splitlines(), after.splitlines()
    groups = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT)
    for number, group in enumerate(groups):
        if number:
            yield "gap", ""
        for tag, first, last, start, end in group:
            if tag == "equal":
                yield from (("same", line) for line in old[first:last])
            else:
                yield from (("del", line) for line in old[first:last])
                yield from (("ins", line) for line in new[start:end])
