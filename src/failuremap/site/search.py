"""The search of the pages: an index that a script looks words up in, made of the records and of what an audit prints.

A record is found by its ids, by the words of its texts, by how the update's total weight depends on the size of the
job ("8x at 8 GPUs"), and by a line of an audit's output, whose numbers and names stand for any others.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

from failuremap.audit.report.outline import about
from failuremap.catalogue.shelf import mechanisms
from failuremap.catalogue.signs import Sign
from failuremap.rules import KNOWN, Layout
from failuremap.site import addresses
from failuremap.site.audits import recorded_audit
from failuremap.site.content import Family

_ALIKE = (
    "accumulation:window actor:rank again:twice already:twice averaged:mean client:rank device:rank "
    "diverge:differ divided:divisor division:divided divisor:divided double:twice drift:differ example:unit "
    "forgot:never fsdp:shard gpu:rank grad:gradient host:rank identical:equal inf:nan machine:rank "
    "microbatch:micro mismatch:differ node:rank norm:length process:rank reduce:synchronise replica:rank "
    "report:log sample:unit sequence:unit skip:drop sum:add sync:synchronise synchronisation:synchronise "
    "token:unit tp:tensor tpu:rank unequal:differ unsynchronised:synchronise weight:weigh worker:rank "
    "zero:empty "
)
"""Words of people, each with a word of the catalogue that may stand for it."""

_PLAIN = set(
    "a about after all also am an and any are as at be been but by can could did do does each ever every for from get "
    "gets give gives go got had has have here how i if in into is it its just like me more most my no not now of on "
    "one only or other our out over same see seem so some than that the their them then there these they this to too "
    "bug check fine help issue job looks model normal ok okay problem run runs strange train trained training "
    "up use used very was we were what when where which while who why will with would you your".split()
)
_WEIGHTS = {
    "title": 5.0,
    "symptoms": 5.0,
    "audited": 4.0,
    "sees": 2.5,
    "abstract": 3.0,
    "failure": 1.5,
    "root_cause": 2.0,
    "relevance": 1.5,
    "failed_approach": 0.5,
    "limitations": 0.3,
    "contract": 0.7,
    "signs": 1.5,
    "rules": 1.5,
}
_TOTALS = {"xrank": Fraction(5), "xwindow": Fraction(7), "overrank": Fraction(1, 5), "overwindow": Fraction(1, 7)}
_WITHIN = "a|an|by|in|of|on|over|the|to|with"
_SHORT = {"title", "symptoms"}
_SATURATION = 6.0
_NOUNS = re.compile(r"\b(?:token|example|sequence|element)(s?)\b")
_NAMES = re.compile(r"(?:\w*[._]\w[\w.]*|[\w.]*\d[\w.]*|−?∞)")
_SHORTEST_STEM = 3


def index(families: Mapping[str, Family]) -> dict[str, Any]:
    """Returns the index: ids -> page, pages, words -> pages with what the word is worth there, lines -> pages.

    Example:
        >>> sorted(index({}))
        ['alike', 'ids', 'lines', 'pages', 'plain', 'words']
    """
    found = list(families.values())
    return {
        "pages": [_page(family) for family in found],
        "ids": {name: page for family in found for name, page in _ids(family)},
        "words": postings([texts(family) for family in found]),
        "lines": _lines(found),
        "alike": alike(),
        "plain": sorted(_PLAIN),
    }


def _page(family: Family) -> list[str | int]:
    """Returns what a result shows, and how many public reports there are: of two that fit, the commoner is meant."""
    first = family.first
    return [family.title, addresses.mechanism_page(family.slug), first.abstract, len(first.references)]


def alike() -> dict[str, str]:
    """Returns words that people use, each with a word of the catalogue that may stand for it, both as stems."""
    pairs = (pair.split(":") for pair in _ALIKE.split())
    return {stem(said): stem(meant) for said, meant in pairs}


def _ids(family: Family) -> Iterator[tuple[str, str]]:
    page = addresses.mechanism_page(family.slug)
    yield from ((name, page) for name in (family.slug, family.number.lower()))
    for case in family.cases:
        yield from ((name.lower(), addresses.case_page(case.id)) for name in (case.id, *case.aliases))


def texts(family: Family) -> dict[str, str]:
    """Returns what is indexed of a mechanism, by kind of text; nothing of it is withheld from the family's readers."""
    case, entry = family.first, mechanisms()[family.slug]
    signs = {sign for alternative in entry.signs for sign in alternative}
    plain = ("abstract", "failure", "root_cause", "relevance", "failed_approach", "limitations")
    return {
        "title": f"{family.title} {family.slug}",
        **{name: str(getattr(case, name)) for name in plain},
        "contract": case.contract.text,
        "symptoms": " ".join(entry.symptoms),
        "sees": f"{case.audit.sees} {case.audit.blind} {case.audit.separated_by}",
        "audited": " ".join(audited_lines(family.slug)),
        "signs": " ".join(sign.words for sign in Sign if sign in signs),
        "rules": " ".join([*(KNOWN[name].words() for name in entry.followed), *_totals(entry.followed)]),
    }


def audited_lines(slug: str) -> list[str]:
    """Returns what an audit printed of a mechanism's training script: its sentences, and what was followed."""
    verdict = recorded_audit(slug)
    if verdict is None or verdict.outcome != "wrong":
        return []
    lines = [finding.sentence for finding in verdict.findings]
    rules = [text for finding in verdict.findings for label, text in about(finding, verdict) if label == "followed"]
    return list(dict.fromkeys([*lines, *rules]))


def postings(documents: list[dict[str, str]]) -> dict[str, list[int]]:
    """Returns for each word the pages that it stands on, and a hundred times what it is worth there, in turn.

    Of titles and symptoms two words in a row are a word, too.

    A word is worth more where it stands in a title, and where it stands on few pages (as BM25 has it).
    """
    counts = [_counted(document) for document in documents]
    spread = Counter(word for counted in counts for word in counted)
    made: dict[str, list[int]] = {word: [] for word in sorted(spread)}
    for number, counted in enumerate(counts):
        for word, count in counted.items():
            rarity = math.log(1 + (len(documents) - spread[word] + 0.5) / (spread[word] + 0.5))
            made[word] += [number, round(100 * rarity * count / (count + _SATURATION))]
    return made


def _counted(document: Mapping[str, str]) -> dict[str, float]:
    counted: dict[str, float] = {}
    for kind, text in document.items():
        found = words(text)
        for word, count in Counter(found + (in_a_row(text) if kind in _SHORT else [])).items():
            counted[word] = counted.get(word, 0.0) + _WEIGHTS[kind] * min(count, 3)
    return counted


def words(text: str) -> list[str]:
    """Splits a text into the stems of its words, without those that tell nothing; numbers are no words.

    Example:
        >>> words("3 of 3 micro-batches averaged: loss/8")
        ['micro', 'batch', 'averag', 'los']
    """
    return [word for word in _stems(text) if word]


def in_a_row(text: str) -> list[str]:
    """Returns each two words that follow upon each other, articles and prepositions between them aside.

    Example:
        >>> in_a_row("the learning rate of a rank differs")
        ['learn rat', 'rat rank', 'rank differ']
    """
    within = re.sub(rf"\b(?:{_WITHIN})\b", "", text.lower())
    return [f"{word} {following}" for word, following in pairwise(_stems(within)) if word and following]


def _stems(text: str) -> list[str]:
    return ["" if word in _PLAIN else stem(word) for word in re.findall(r"[a-z]{2,}", text.lower())]


def stem(word: str) -> str:
    """Cuts the ending off an English word, so that its forms are one; as the page's script does.

    Example:
        >>> [stem(word) for word in ("averages", "averaged", "averaging", "clipped", "synchronize", "copies")]
        ['averag', 'averag', 'averag', 'clip', 'synchronis', 'copy']
    """
    word = re.sub(r"iz(e|ed|es|ing|ation)$", r"is\1", word)
    word = re.sub(r"ies$", "y", word) if len(word) > 4 else word
    word = re.sub(r"(?<![sui])s$", "", word)
    for ending in ("ing", "ed", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            word = word.removesuffix(ending)
            break
    return re.sub(r"([b-df-hj-np-tv-z])\1$", r"\1", word)


def normal(line: str) -> str:
    """Makes a line of an audit's output one that stands for all of its kind: without its numbers and names.

    Example:
        >>> normal("A token on rank 1 weighs 2.50 times a token on rank 0.")
        'a unit on rank # weighs # times a unit on rank #'
        >>> normal("2 of 4 parameters are never added up over the ranks: 0.weight, head.bias and 3 more.")
        '# of # parameters are never added up over the ranks #'
    """
    line = _NAMES.sub("#", _NOUNS.sub(r"unit\1", line.lower()))
    line = re.sub(r"[^a-z#]+", " ", line).strip()
    return re.sub(r"#( and # more| #)+", "#", line).replace("an unit", "a unit")


def _lines(families: list[Family]) -> dict[str, list[int]]:
    """Returns the lines that audits print, each with the pages whose training scripts give it."""
    lines: dict[str, list[int]] = {}
    for number, family in enumerate(families):
        for line in map(normal, audited_lines(family.slug)):
            lines.setdefault(line, []).append(number)
    return dict(sorted(lines.items()))


def _totals(followed: Iterable[str]) -> Iterator[str]:
    """Says how the total weight of an update depends on the sizes of a job: "xrank" is R times that of a mean."""
    for name in followed:
        total = sum(KNOWN[name].coefficients(Layout.grid({(r, m): 1 for r in range(5) for m in range(7)})))
        yield from (word for word, factor in _TOTALS.items() if total == factor)
