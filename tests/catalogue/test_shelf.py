"""Names of the catalogue: a slug, a number, a case's id and an alias all lead to their mechanism."""

from __future__ import annotations

import pytest

from failuremap.catalogue import case_id, case_of, mechanism, mechanisms
from failuremap.errors import InvalidArgument

SLUG = "replica-means-ignore-counts"


@pytest.mark.parametrize(
    ("name", "variant"), [(SLUG, None), ("FM-001", None), ("FM-001-3", 3), ("fm-001-5", 5), ("FA-99241", 1)]
)
def test_each_name_leads_to_the_mechanism_and_the_variant_that_it_says(name, variant):
    entry, found = case_of(name)

    assert (entry.slug, found) == (SLUG, variant)
    assert mechanism(name).slug == SLUG


def test_an_id_is_made_of_number_and_variant():
    assert case_id(mechanism(SLUG), 4) == "FM-001-4"


@pytest.mark.parametrize("name", ["FM-999-1", "FM-001-6", "FA-1", "FM-001-"])
def test_a_case_that_is_none_is_refused(name):
    with pytest.raises(
        InvalidArgument, match=rf"^case='{name}' names no case of the catalogue; `failuremap list` shows"
    ):
        case_of(name)


def test_the_numbers_and_aliases_are_each_of_one_mechanism():
    numbers = [entry.number for entry in mechanisms().values() if entry.number]
    aliases = [entry.alias for entry in mechanisms().values() if entry.alias]

    assert len(set(numbers)) == len(numbers)
    assert len(set(aliases)) == len(aliases)
