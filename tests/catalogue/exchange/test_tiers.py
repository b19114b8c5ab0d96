"""The tiers: what a stranger reads holds nothing that is withheld, and each file says of which tier it is."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest

from catalogue.exchange.making import SEALED, all_cases, case_of
from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.exchange.export import export_files
from failuremap.catalogue.exchange.tiers import CANARIES, TIERS, contract_id, holdings
from failuremap.catalogue.records import WITHHELD
from failuremap.catalogue.records.digest import value_at
from failuremap.catalogue.records.model import Case


def texts_in(files: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every file, those in a zip apart; a Parquet file as its cells."""
    for name, content in files.items():
        if name.endswith(".parquet"):
            pq = pytest.importorskip("pyarrow.parquet")
            table = pq.read_table(io.BytesIO(content))
            yield name, json.dumps([table.to_pylist(), str(table.schema.metadata)], ensure_ascii=False)
        elif name.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                yield name, archive.comment.decode()
                yield from ((f"{name}: {info}", archive.read(info).decode()) for info in archive.namelist())
        else:
            yield name, content.decode()


def secrets_of(cases: Any) -> dict[str, str]:
    """Return every text that is withheld: what it is -> the text."""
    secrets: dict[str, str] = {}
    for case in cases:
        document = case.document()
        for path in WITHHELD:
            secrets |= {f"{case.id} {path} {key}": text for key, text in leaves(value_at(document, path))}
        secrets |= {f"{case.id} salt {path}": salt for path, salt in document["member_only"]["salts"].items()}
        if case.visibility == "sealed":
            names = ("title", "id", "family", "abstract", "root_cause", "failure", "evaluation_group", "sha256")
            secrets |= {f"{case.id} {name}": document[name] for name in names}
    return secrets


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in a value that are long enough to be no accident."""
    if isinstance(value, str):
        yield from [(path, value)] if len(value) > 8 else []
    else:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            yield from leaves(inner, f"{path}.{key}")


def found(files: dict[str, bytes], secrets: dict[str, str]) -> list[str]:
    """Return which secrets stand in which file, as they are or as JSON writes them."""
    texts = list(texts_in(files))
    everything = "\n".join(text for _, text in texts)
    there = {
        what: secret
        for what, secret in secrets.items()
        if secret in everything or json.dumps(secret, ensure_ascii=False)[1:-1] in everything
    }
    return [
        f"{what} in {name}"
        for what, secret in there.items()
        for name, text in texts
        if secret in text or json.dumps(secret, ensure_ascii=False)[1:-1] in text
    ]


def open_secrets(cases: list[Case]) -> dict[str, str]:
    """Return the secrets that neither the open form of an open case nor a contract shows, as they show labels.

    The names of a family that is held back are secret whatever an open case says.
    """
    open_forms = json.dumps([case.to_open().document() for case in cases if case.visibility == "open"])
    contracts = {text for case in cases for _, text in leaves(case.document()["contract"])}
    return {
        what: text
        for what, text in secrets_of(cases).items()
        if what.endswith((" id", " family", " title"))
        or (text not in contracts and json.dumps(text)[1:-1] not in open_forms)
    }


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
