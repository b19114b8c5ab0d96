"""Python texts as HTML: highlighted, and the difference between two of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from html import escape
from itertools import groupby

from markupsafe import Markup
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Literal, Name, Operator, String, _TokenType

from failuremap.catalogue.mechanism import VARIANTS

# Kind of token -> class; all other text is left as it is, so that a page stays small.
_CLASSES = (
    (Comment, "c"),
    (String, "s"),
    (Literal, "m"),
    (Operator.Word, "k"),
    (Keyword, "k"),
    (Name.Builtin, "b"),
    (Name.Function, "f"),
)
_N_LINE = re.compile(r'^N = <span class="m">(\d)</span>$', re.MULTILINE)
_CONTEXT = 1


@lru_cache(maxsize=1024)
def highlighted(source: str) -> Markup:
    """Returns a Python text with its keywords, texts, numbers, comments and names of functions marked.

    Example:
        >>> highlighted("return 1")
        Markup('<span class="k">return</span> <span class="m">1</span>\\n')
    """
    tokens = ((_class_of(kind), text) for kind, text in PythonLexer(stripnl=False).get_tokens(source))
    runs = ((name, "".join(text for _, text in run)) for name, run in groupby(tokens, key=lambda token: token[0]))
    return Markup("".join(_marked(name, escape(text, quote=False)) for name, text in runs))  # noqa: S704 (escaped)


def _marked(name: str, text: str) -> str:
    return f'<span class="{name}">{text}</span>' if name else text


@cache
def _class_of(kind: _TokenType) -> str:
    return next((name for parent, name in _CLASSES if kind in parent), "")


def of_variant(html: Markup, variant: int) -> Markup:
    """Returns a highlighted script with another N: nothing else differs between the variants of a stage."""
    return _with_n(html, f'<span class="m">{variant}</span>')


def of_all_variants(html: Markup) -> Markup:
    """Returns a highlighted script whose N is that of the variant which is chosen on the page."""
    numbers = "".join(f'<span class="m of of-{variant}">{variant}</span>' for variant in VARIANTS)
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
