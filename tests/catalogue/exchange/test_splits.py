"""The splits: a keyed hash of the group alone, and a check that refuses what would tell of another split."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction

import pytest

from failuremap.catalogue import mechanisms
from failuremap.catalogue.exchange.splits import (
    HELD_BACK_SHARE,
    OVERRIDES,
    SEASON,
    SPLITS,
    Standing,
    check_splits,
    repair_shape,
    split_of,
    standing_of,
)
from failuremap.errors import RecordError

GROUPS = [f"group-{number}" for number in range(80)]
ADDS = "def solve(rows):\n    return [sum(column) for column in zip(*rows)]\n"
ADDS_RENAMED = 'def solve(parts):\n    """Add up."""\n    return [sum(c) for c in zip(*parts)]\n'
DOUBLES = "def solve(rows):\n    return [2 * sum(column) for column in zip(*rows)]\n"
A = Standing("a", "group-of-a", "open-access", ADDS)
B = Standing("b", "group-of-b", "open-access", DOUBLES)


def test_growing_the_catalogue_moves_no_group():
    before = {group: split_of(group) for group in GROUPS[:40]}
    after = {group: split_of(group) for group in GROUPS}

    assert {group: after[group] for group in GROUPS[:40]} == before


def test_the_split_is_the_hash_that_the_manual_states():
    for group in GROUPS:
        hashed = int(hashlib.sha256(SEASON.encode() + b"\0" + group.encode()).hexdigest(), 16)

        assert (split_of(group) == "held-back") == (Fraction(hashed, 2**256) < HELD_BACK_SHARE)


def test_about_the_share_of_many_groups_is_held_back():
    held_back = sum(split_of(f"group {number}") == "held-back" for number in range(4000))

    assert 0.22 < held_back / 4000 < 0.28


def test_another_season_holds_back_other_groups():
    assert [split_of(group, "another") for group in GROUPS] != [split_of(group) for group in GROUPS]


@pytest.mark.parametrize(("share", "split"), [(Fraction(0), "open-access"), (Fraction(1), "held-back")])
def test_a_share_of_none_or_all_holds_back_none_or_all(share, split):
    assert {split_of(group, share=share) for group in GROUPS} == {split}


def test_an_override_wins_over_the_hash(monkeypatch):
    held_back = next(group for group in GROUPS if split_of(group) == "held-back")
    monkeypatch.setitem(OVERRIDES, held_back, "open-access")

    assert split_of(held_back) == "open-access"


def test_each_override_names_a_group_of_the_catalogue_and_a_split():
    assert set(OVERRIDES) - {entry.group for entry in mechanisms().values()} == set()
    assert set(OVERRIDES.values()) <= set(SPLITS)


def test_what_was_published_before_is_open():
    published = [entry for entry in mechanisms().values() if entry.alias and entry.group]

    assert {entry.slug for entry in published if split_of(entry.group) != "open-access"} == set()


def test_the_catalogue_tells_nothing_of_another_split():
    check_splits(standing_of(entry) for entry in mechanisms().values() if entry.group)


def test_entries_in_their_places_pass():
    check_splits([A, B, replace(A, family="c")])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (replace(A, group="group-of-b"), "family='a' is in 2 groups, 'group-of-a', 'group-of-b'; a family is in one."),
        (
            replace(A, family="c", split="held-back", repair=""),
            "group='group-of-a' is in 2 splits, 'held-back', 'open-access'; a group is in one.",
        ),
        (
            Standing("c", "group-of-c", "held-back", ADDS_RENAMED),
            (
                "families 'a' (group='group-of-a', split='open-access'), 'c' (group='group-of-c', split='held-back') "
                "have one repair in two splits; put them in one group, or their groups in one split."
            ),
        ),
    ],
)
def test_an_entry_out_of_its_place_is_refused(wrong, message):
    with pytest.raises(RecordError) as refused:
        check_splits([A, B, wrong])

    assert str(refused.value) == message


def test_all_problems_are_named_at_once():
    with pytest.raises(RecordError) as refused:
        check_splits([A, B, replace(A, group="group-of-b"), replace(B, split="held-back", repair=ADDS)])

    assert len(str(refused.value).splitlines()) == 3


def test_a_repair_is_the_same_under_other_names():
    assert repair_shape(ADDS) == repair_shape(ADDS_RENAMED)


@pytest.mark.parametrize("other", [DOUBLES, ADDS.replace("sum", "max"), ADDS.replace("*rows", "rows")])
def test_another_repair_is_another(other):
    assert repair_shape(other) != repair_shape(ADDS)


def test_constants_tell_repairs_apart():
    assert repair_shape(DOUBLES) != repair_shape(DOUBLES.replace("2", "3"))


def test_only_what_solve_does_is_compared():
    assert repair_shape("N = 1\n" + ADDS) == repair_shape("N = 2\n" + ADDS)


def test_inner_functions_are_renamed_as_well():
    inner = "def solve(rows):\n    def f(x): return 2*x\n    return f(rows)\n"

    assert repair_shape(inner) == repair_shape(inner.replace("f(", "double("))


def test_a_script_without_solve_has_no_repair():
    with pytest.raises(RecordError, match=r"^the repair has no function solve\(\)\.$"):
        repair_shape("x = 1\n")
