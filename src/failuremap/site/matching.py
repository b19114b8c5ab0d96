"""Does this match what you see? The tables and texts of that page, made from the rules and the mechanisms."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from failuremap.catalogue.mechanism import Mechanism
from failuremap.catalogue.shelf import mechanisms
from failuremap.catalogue.signs import Sign
from failuremap.rules import KNOWN
from failuremap.site.forms import form_of


@dataclass(frozen=True)
class Way:
    """One way in which a sign, or a rule, leads to a mechanism.

    Attributes:
        slug: The mechanism.
        besides: What else must have been seen, in words.
        unless: What must not have been seen, in words.
    """

    slug: str
    besides: tuple[str, ...]
    unless: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """One thing that may have been seen, and where it leads.

    Attributes:
        name: The sign, or the name of the rule.
        words: What was seen.
        ways: The mechanisms that it tells of; none where it only excludes some, or tells of those held back.
    """

    name: str
    words: str
    ways: tuple[Way, ...]


def table(slugs: Collection[str]) -> dict[str, Any]:
    """Returns what the page needs to match by itself: all known rules as powers, and the mechanisms of these slugs.

    Example:
        >>> made = table(["replicas-summed"])
        >>> made["rules"][0]
        ['weighted_mean', 'mean over all units', (1, -1, 0, 0, 0, 0, 0, 0), 'all']
        >>> made["mechanisms"][0]["promised"]
        'weighted_mean'
    """
    forms = {name: form_of(rule) for name, rule in KNOWN.items()}
    rules = [[name, rule.words(), forms[name].powers, forms[name].holds] for name, rule in KNOWN.items()]
    return {"rules": rules, "mechanisms": [_row(entry) for entry in _nameable(slugs)]}


def topics(slugs: Collection[str]) -> dict[str, list[Question]]:
    """Returns the signs as questions, by topic, in the order of `Sign`."""
    entries = _nameable(slugs)
    by_topic = groupby(Sign, key=lambda sign: sign.topic)
    return {topic: [_about_sign(sign, entries) for sign in signs] for topic, signs in by_topic}


def rule_questions(slugs: Collection[str]) -> list[Question]:
    """Returns the rules by which a job of these mechanisms adds up, each with where it leads."""
    entries = _nameable(slugs)
    asked = [_about_rule(name, entries) for name in KNOWN]
    return [question for question in asked if question.ways]


def unseen(slugs: Collection[str]) -> list[str]:
    """Returns the mechanisms that no sign and no rule tells of, by slug: only their description helps."""
    nameable = {entry.slug for entry in _nameable(slugs)}
    return [slug for slug in slugs if slug not in nameable]


def _nameable(slugs: Collection[str]) -> list[Mechanism]:
    known: Mapping[str, Mechanism] = mechanisms()
    return [known[slug] for slug in sorted(slugs) if known[slug].followed or known[slug].by_signs_alone]


def _row(entry: Mechanism) -> dict[str, Any]:
    return {
        "slug": entry.slug,
        "promised": entry.promised,
        "followed": list(entry.followed),
        "alone": entry.by_signs_alone,
        "signs": [sorted(alternative) for alternative in entry.signs],
        "never": sorted(entry.never),
    }


def _about_sign(sign: Sign, entries: list[Mechanism]) -> Question:
    ways = [
        _way(entry, alternative - {sign}) for entry in entries for alternative in entry.signs if sign in alternative
    ]
    return Question(str(sign), sign.words, tuple(ways))


def _about_rule(name: str, entries: list[Mechanism]) -> Question:
    followers = [entry for entry in entries if name in entry.followed and not entry.by_signs_alone]
    ways = [_way(entry, alternative) for entry in followers for alternative in entry.signs]
    return Question(name, KNOWN[name].words(), tuple(ways))


def _way(entry: Mechanism, besides: Collection[Sign]) -> Way:
    return Way(entry.slug, _words(besides), _words(entry.never))


def _words(signs: Collection[Sign]) -> tuple[str, ...]:
    return tuple(sign.words for sign in Sign if sign in signs)
