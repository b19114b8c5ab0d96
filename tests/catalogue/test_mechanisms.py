"""Every mechanism's file: complete, named for itself, and made of known rules and signs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import failuremap.catalogue
from failuremap.catalogue import Mechanism, Sign, mechanism, mechanisms
from failuremap.errors import InvalidArgument
from failuremap.rules import KNOWN

FILES = sorted((Path(failuremap.catalogue.__file__).parent / "mechanisms").glob("[!_]*.py"))
LIVE = Path(failuremap.catalogue.__file__).parent / "live"
NAMED_BY_THE_AUDIT = {
    "replica-means-ignore-counts", "partials-averaged", "mean-of-microbatch-means", "replicas-summed",
    "compensation-without-cause", "global-denominator-averaged-again", "averaged-over-ranks-twice",
    "window-sum-not-mean", "divided-twice", "accumulator-overwritten", "only-first-microbatch-kept", "rank-dropped",
    "first-rank-broadcast", "never-synchronised", "sync-on-wrong-microbatch", "forward-outside-sync-context",
    "param-without-hook", "reducer-bypassed", "stale-gradient-leaks", "previous-gradient-applied",
    "clip-in-wrong-place", "zero-total", "divisor-counts-idle-parts", "partial-window-full-divisor",
    "same-data-on-all-ranks", "replicas-start-different", "reduced-again",
}  # fmt: skip


def entries() -> list[Mechanism]:
    return list(mechanisms().values())


def test_each_file_is_an_entry_of_its_own_name():
    assert sorted(mechanisms()) == sorted(path.stem.replace("_", "-") for path in FILES)


def test_all_mechanisms_that_the_audit_names_are_there():
    assert NAMED_BY_THE_AUDIT - set(mechanisms()) == set()


PROSE = (
    "abstract", "root_cause", "failure", "failed_approach", "relevance", "limitations", "contract", "domain",
    "separated_by", "audit_sees", "repair",
)  # fmt: skip


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.slug)
def test_an_entry_is_complete(entry):
    prose = {name: getattr(entry, name) for name in PROSE}

    assert [name for name, text in prose.items() if len(text) < 15] == []
    assert entry.number > 0
    assert entry.title[0].isupper()
    assert not entry.title.endswith(".")
    assert all(re.fullmatch(r"https://(github\.com|pytorch\.org)/\S+", url) for url in entry.references)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in (entry.slug, entry.group))
    assert entry.stages
    assert 3 <= len(entry.clauses) <= 7


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.slug)
def test_an_entry_says_each_thing_once(entry):
    text = " ".join(getattr(entry, name).rstrip(".") + "." for name in PROSE) + " ".join(c.text for c in entry.clauses)
    sentences = [sentence for sentence in re.split(r"(?<=[.:;])\s+", text) if len(sentence) > 30]

    assert [one for one, times in Counter(sentences).items() if times > 1] == []


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.slug)
def test_related_entries_are_others_of_the_catalogue(entry):
    assert entry.related
    assert set(entry.related) <= set(mechanisms()) - {entry.slug}


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.slug)
def test_an_entry_happens_live_or_says_why_it_is_not_named(entry):
    assert (LIVE / f"{entry.slug.replace('-', '_')}.py").is_file() or entry.audit_blind


def test_a_number_is_that_of_one_entry():
    numbers = Counter(entry.number for entry in entries())

    assert [number for number, times in numbers.items() if times > 1] == []


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.slug)
def test_an_entry_is_made_of_known_rules(entry):
    names = {entry.promised, entry.attempt_follows, *entry.followed} - {""}

    assert names - set(KNOWN) == set()
    assert entry.promised or entry.law


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.slug)
def test_an_entry_can_be_recognised_or_says_why_not(entry):
    assert entry.followed or entry.by_signs_alone or entry.audit_blind
    assert [alternative for alternative in entry.signs if not alternative & entry.never] == list(entry.signs)
    assert all(isinstance(sign, Sign) for alternative in entry.signs for sign in alternative)


def test_an_entry_named_by_signs_alone_needs_a_sign():
    assert [entry.slug for entry in entries() if entry.by_signs_alone and not all(entry.signs)] == []


def test_every_sign_is_used_or_says_what_else_was_seen():
    used = {sign for entry in entries() for sign in entry.never.union(*entry.signs)}

    assert set(Sign) - used == set()


def test_the_two_seed_families_are_there():
    assert {entry.slug: entry.alias for entry in entries() if entry.alias} == {
        "replica-means-ignore-counts": "FA-99241",
        "partials-averaged": "FA-99246",
    }


def test_a_mechanism_is_found_by_its_slug():
    assert mechanism("divided-twice").title == "The accumulated gradient is divided by the window twice"


def test_a_misspelt_slug_is_refused_with_those_alike():
    with pytest.raises(InvalidArgument, match=r"^slug='divided-twise' names no .*; did you mean divided-twice\b.*\?$"):
        mechanism("divided-twise")


def test_a_slug_like_no_other_is_refused_with_the_way_to_the_list():
    with pytest.raises(
        InvalidArgument,
        match=r"^slug='zzz' names no mechanism of the catalogue; `failuremap list` shows all of them\.$",
    ):
        mechanism("zzz")
