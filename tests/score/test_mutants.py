"""Repairs with one thing wrong: none is accepted that is another function."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from failuremap.catalogue import Mechanism, mechanism, mechanisms
from failuremap.score.forms import candidate_of
from failuremap.score.mutants import Mutant, equivalents, mutants
from score.kills import key_of, killers, thin
from score.stand_in import outcome

KEYS = [bytes([number]) * 32 for number in range(2)]
ENTRIES = [entry for entry in mechanisms().values() if entry.stages]
FEW = ["replica-means-ignore-counts", "partials-averaged"]


@cache
def mutants_of(slug: str) -> list[Mutant]:
    return mutants(candidate_of(mechanism(slug)))


def survivors(entry: Mechanism, key: bytes) -> set[str]:
    """Return the names of the mutants that are accepted."""
    return {mutant.name for mutant in mutants_of(entry.slug) if outcome(mutant.source, entry, key) == "accepted"}


def equivalents_of(slug: str) -> set[str]:
    return {name for mechanism_, name in equivalents() if mechanism_ == slug}


@pytest.mark.parametrize("slug", FEW)
def test_the_mutants_of_a_repair_are_refused(slug: str):
    assert survivors(mechanism(slug), KEYS[0]) == equivalents_of(slug)


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.slug)
def test_no_mutant_that_is_another_function_is_accepted(entry: Mechanism, key: bytes):
    assert survivors(entry, key) == equivalents_of(entry.slug)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.slug)
def test_a_repair_has_thirty_mutants_or_more_of_different_names_and_texts(entry: Mechanism):
    found = mutants_of(entry.slug)

    assert len(found) >= 30
    assert len({mutant.name for mutant in found}) == len({mutant.source for mutant in found}) == len(found)


def test_each_listed_equivalent_is_a_mutant_and_has_its_reason():
    listed = list(equivalents())

    assert [key for key in listed if key[1] not in {mutant.name for mutant in mutants_of(key[0])}] == []
    assert all(reason.endswith(".") for reason in equivalents().values())


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("a < b", ["a < b -> a <= b", "a < b -> a > b"]),
        ("a and b", ["a and b -> a or b", "a and b -> a", "a and b -> b"]),
        ("a if b else c", ["a if b else c -> a", "a if b else c -> c", "a if b else c -> a if not b else c"]),
        ("[x for x in y if x]", ["for x in y if x -> for x in y", "for x in y if x -> for x in list(y)[1:] if x"]),
        ("len(x)", ["len(x) -> len(x) + 1", "len(x) -> max(len(x) - 1, 1)"]),
        ("sum(x)", ["sum(x) -> max(x)", "sum(x) -> len(x)", "sum(x) -> min(x)", "sum(x) -> sum(list(x)[1:])"]),
        ("x[1:]", ["x[1:] -> x"]),
    ],
)
def test_a_node_is_changed_in_the_ways_in_which_people_err(source: str, changes: list[str]):
    text = f"def solve(given):\n    return {source}"
    names = [mutant.name for mutant in mutants(text)]

    assert [change for change in changes if change not in names] == []


def test_statements_and_guards_are_taken_out():
    text = "def solve(rows):\n    if not rows:\n        return []\n    total = 1\n    total += 2\n    return [total]"
    found = {mutant.name: mutant.source for mutant in mutants(text)}

    assert "if not rows: return [] -> pass" in found
    assert "total += 2 -> total -= 2" in found
    assert "total += 2 -> pass" in found
    assert all(ast.parse(source) for source in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("number", range(12))
def test_each_mutant_of_a_sample_dies_of_three_fixtures_or_more(number: int):
    """Under each of 12 keys every sixth family; `python tests/score/kills.py` tries all of them."""
    entries = ENTRIES[number % 6 :: 6]

    found = {entry.slug: thin(entry, key_of(number), least=3, every=5) for entry in entries}

    assert {slug: mutants for slug, mutants in found.items() if mutants} == {}


def test_a_change_that_few_fixtures_notice_is_thin():
    entry = mechanism("partials-averaged")
    source = "def solve(parts): return [sum(c) for c in zip(*parts)] if len(parts) < 100 else []"

    assert len(list(killers(entry, source, key_of(0)))) < 3
