"""The tiers: what a stranger reads holds nothing that is withheld, and each file says of which tier it is."""

from __future__ import annotations

import pytest

from catalogue.exchange.leaks import found, open_secrets, secrets_of, texts_in
from catalogue.exchange.making import SEALED, all_cases, case_of
from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.exchange.export import export_files
from failuremap.catalogue.exchange.tiers import CANARIES, TIERS, contract_id, holdings


def test_the_secrets_are_those_that_matter():
    kinds = {what.split(" ", 1)[1].split(" .")[0].split(".")[0] for what in open_secrets(all_cases())}

    assert {"repair", "harness", "implementations", "verification", "id", "title"} <= {
        kind.split(" ")[0] for kind in kinds
    }
    assert any(what.startswith("FM-001-1 salt") for what in open_secrets(all_cases()))
    assert any(what.startswith("FM-999-1 id") for what in open_secrets(all_cases()))


def test_an_open_build_holds_nothing_that_is_withheld():
    assert found(export_files(all_cases(), "open"), open_secrets(all_cases())) == []


@pytest.mark.slow
def test_an_open_build_of_the_whole_catalogue_holds_nothing_that_is_withheld():
    cases = released_cases()
    secrets = open_secrets(cases)

    assert len(secrets) > 1000
    assert found(export_files(cases, "open"), secrets) == []


def test_a_member_build_holds_the_repair_and_nothing_of_what_is_held_back():
    files = export_files(all_cases(), "member")
    secrets = {what: text for what, text in open_secrets(all_cases()).items() if what.startswith("FM-999")}

    assert found(files, secrets) == []
    assert "FM-001-1 repair  in cases.jsonl" in found(files, secrets_of(all_cases()))


def test_a_sealed_build_holds_everything():
    files = export_files(all_cases(), "sealed")
    there = {line.split(" in ")[0] for line in found(files, open_secrets(all_cases()))}

    assert there == set(open_secrets(all_cases()))


@pytest.mark.parametrize("tier", TIERS)
def test_every_file_has_the_canary_of_its_tier_and_of_none_above(tier):
    files = export_files(all_cases(), tier)
    above = [CANARIES[other] for other in TIERS[TIERS.index(tier) + 1 :]]

    by_file: dict[str, str] = {}
    for name, text in texts_in(files):
        by_file[name.split(": ")[0]] = by_file.get(name.split(": ")[0], "") + text

    assert set(by_file) == set(files)
    assert [name for name, text in by_file.items() if CANARIES[tier] not in text] == []
    assert [name for name, text in by_file.items() if any(canary in text for canary in above)] == []


def test_the_canaries_differ():
    assert len(set(CANARIES.values())) == len(TIERS)


def test_of_what_is_held_back_the_contract_is_there_once():
    sealed = case_of(SEALED.slug)

    (row,) = holdings([sealed, sealed], "open").contracts

    assert row["contract"] == sealed.document()["contract"]
    assert set(row) == {"contract_id", "category", "split", "contract", "canary"}
    assert row["contract_id"] == contract_id(sealed)


def test_a_case_has_one_digest_in_every_tier():
    case = case_of("replica-means-ignore-counts")

    assert {holdings([case], tier).cases[0].sha256 for tier in TIERS} == {case.sha256}


def test_a_release_without_anything_held_back_has_no_contracts():
    assert holdings([case_of("replica-means-ignore-counts")], "open").contracts == ()
