"""Data sets: the same bytes on every day, readable by the tools that they are for, and whole."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from catalogue.exchange.making import SEALED, all_cases, case_of
from failuremap.catalogue import mechanism, mechanisms
from failuremap.catalogue.exchange import tables
from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.exchange.export import FORMATS, export, export_files, give_back
from failuremap.catalogue.exchange.failure_map import parse_record
from failuremap.catalogue.exchange.importing import import_file
from failuremap.catalogue.exchange.intake import read_key
from failuremap.catalogue.exchange.splits import split_of
from failuremap.catalogue.exchange.storing import store
from failuremap.catalogue.exchange.tiers import TIERS, canary_line
from failuremap.catalogue.records import case_from_json
from failuremap.errors import InvalidArgument, MissingDependency, RecordError

TESTS = Path(__file__).parents[2]
DIGEST = """
import hashlib
from catalogue.exchange.making import all_cases
from failuremap.catalogue.exchange.export import export_files
for name, content in export_files(all_cases(), "sealed").items():
    print(name, hashlib.sha256(content).hexdigest())
"""


def digests(files: dict[str, bytes]) -> list[str]:
    return [f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in files.items()]


def test_two_builds_on_different_days_have_the_same_bytes(monkeypatch):
    before = export_files(all_cases(), "sealed")
    later = time.time() + 40 * 86400
    monkeypatch.setattr(time, "time", lambda: later)
    monkeypatch.setattr(time, "localtime", lambda *_: dt.datetime.fromtimestamp(later).timetuple())  # noqa: DTZ006
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")

    assert export_files(all_cases(), "sealed") == before


def test_two_processes_give_the_same_bytes():
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTHONHASHSEED": "12", "TZ": "Asia/Tokyo", "LC_ALL": "C"}

    done = subprocess.run([sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == digests(export_files(all_cases(), "sealed"))


@pytest.mark.parametrize("tier", TIERS)
def test_the_sums_hold_and_cover_every_file(tmp_path, tier):
    export(tmp_path / "out", all_cases(), tier)

    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path / "out", capture_output=True, text=True
    )

    names = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert (done.returncode, done.stderr) == (0, "")
    assert {line.removesuffix(": OK") for line in done.stdout.splitlines()} == names - {"SHA256SUMS"}


def test_each_line_is_a_record_of_our_own():
    files = export_files(all_cases(), "sealed", ["jsonl"])

    read = [case_from_json(line) for line in files["cases.jsonl"].decode().splitlines()]
    held_back = [case_from_json(line) for line in files["held-back.jsonl"].decode().splitlines()]

    assert [case.sha256 for case in [*read, *held_back]] == [case.sha256 for case in all_cases()]
    assert {case.split for case in held_back} == {"held-back"}


@pytest.mark.parametrize(
    ("formats", "names"),
    [
        (["jsonl"], {"cases.jsonl", "contracts.jsonl"}),
        (["parquet"], {"cases.parquet"}),
        (["croissant"], {"cases.jsonl", "contracts.jsonl", "croissant.json"}),
        (["card"], {"cases.jsonl", "contracts.jsonl", "README.md"}),
        (["failure-map"], {"failure-map/FM-001-1.json", "failure-map/FM-001-2.json"}),
        (["bundles"], {"bundles/FM-001-1.zip", "bundles/FM-001-2.zip"}),
    ],
)
def test_a_format_writes_its_files_and_what_they_describe(formats, names):
    assert set(export_files(all_cases(), "open", formats)) == names | {"SHA256SUMS"}


def test_the_parquet_file_has_the_records_columns(require_module):
    require_module("pyarrow")
    from pyarrow import parquet

    content = export_files(all_cases(), "member", ["parquet"])["cases.parquet"]
    table = parquet.read_table(io.BytesIO(content))
    row = table.to_pylist()[0]
    case = case_of("replica-means-ignore-counts")

    assert table.schema.metadata == {b"canary": canary_line("member").encode()}
    assert (row["id"], row["variant"], row["repair"], row["aliases"]) == (
        case.id,
        case.variant,
        case.repair,
        list(case.aliases),
    )
    assert json.loads(row["verification"]) == case.document()["verification"]
    assert "2.0" in row["verification"]


def test_the_open_parquet_file_has_no_column_for_what_is_withheld(require_module):
    require_module("pyarrow")

    columns = tables.column_kinds([case.to_open() for case in all_cases()])

    assert {"repair", "harness"} & set(columns) == set()
    assert {"repair": "text", "harness": "json"}.items() <= tables.column_kinds(all_cases()).items()


def test_without_pyarrow_the_line_that_installs_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(
        MissingDependency, match=r"^the Parquet file needs pyarrow\. .* pip install 'failuremap\[data\]'$"
    ):
        export_files(all_cases(), "open", ["parquet"])


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["open", "sealed"])
def test_croissant_is_valid_and_its_columns_are_read(tmp_path, require_module, tier):
    require_module("mlcroissant")
    export(tmp_path / "out", all_cases(), tier, ["croissant"])
    day = case_of("replica-means-ignore-counts").modified
    code = (
        "import sys, mlcroissant as m; d = m.Dataset(jsonld='croissant.json');"
        "print(d.metadata.issues.report());"
        "print([(r['cases/id'], str(r['cases/modified'])[:10]) for r in d.records('cases')])"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "out", capture_output=True, text=True)

    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == f"[(b'FM-001-1', '{day}'), (b'FM-001-2', '{day}')]"
    assert "not standard" not in done.stderr


def test_croissant_says_the_sums_of_the_files_and_the_last_change():
    files = export_files(all_cases(), "open", ["croissant"])
    described = json.loads(files["croissant.json"])

    assert {one["name"]: one["sha256"] for one in described["distribution"]} == {
        name: hashlib.sha256(files[name]).hexdigest() for name in ("cases.jsonl", "contracts.jsonl")
    }
    assert described["datePublished"] == max(case.modified for case in all_cases())


@pytest.mark.slow
def test_a_wrong_croissant_file_is_refused_by_the_validator(tmp_path, require_module):
    require_module("mlcroissant")
    files = export_files(all_cases(), "open", ["croissant"])
    (tmp_path / "croissant.json").write_bytes(files["croissant.json"].replace(b'"cr:FileObject"', b'"cr:Nothing"'))
    code = "import mlcroissant; mlcroissant.Dataset(jsonld='croissant.json')"

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode != 0


@pytest.mark.parametrize("tier", TIERS)
def test_the_card_names_every_file_and_no_other(tier):
    files = export_files(all_cases(), tier)
    card = files["README.md"].decode()
    tops = {name.partition("/")[0] for name in files} - {"README.md"}

    assert {line.split("`")[1] for line in card.splitlines() if line.startswith("| `")} == tops


@pytest.mark.parametrize(
    ("tier", "tables_there"),
    [
        ("open", {"open_access": "cases.parquet", "held_back": "contracts.jsonl"}),
        ("sealed", {"open_access": "cases.parquet", "held_back": "held-back.parquet"}),
    ],
)
def test_the_header_of_the_card_lists_the_tables_by_split(tier, tables_there):
    header = export_files(all_cases(), tier)["README.md"].decode().split("---\n")[1]
    lines = [line.strip() for line in header.splitlines()]
    splits = [line.removeprefix("- split: ") for line in lines if line.startswith("- split: ")]
    paths = [line.removeprefix("path: ") for line in lines if line.startswith("path: ")]

    assert dict(zip(splits, paths, strict=True)) == tables_there
    assert f"- config_name: {tier}" in lines
    assert "license: cc0-1.0" in lines


def test_each_record_in_the_other_form_holds_what_it_claims(tmp_path):
    for name, content in export_files(all_cases(), "sealed", ["failure-map"]).items():
        if name.endswith(".json"):
            (tmp_path / Path(name).name).write_bytes(content)

    one = [import_file(path) for path in sorted(tmp_path.iterdir())]

    assert [(each.record, each.holds) for each in one] == [("FM-001-1", True), ("FM-001-2", True), ("FM-999-1", True)]


def stored(folder: Path) -> tuple[Path, bytes]:
    """Import an open record of ours and store it; return the store and the record's bytes."""
    content = export_files([case_of(SEALED.slug)], "sealed", ["failure-map"])["failure-map/FM-999-1.json"]
    (folder / "given.json").write_bytes(content)
    store([import_file(folder / "given.json")], folder / "imported")
    return folder / "imported", content


def test_an_imported_record_is_given_back_byte_for_byte(tmp_path):
    imported, content = stored(tmp_path)

    files = give_back(tmp_path / "back", imported)

    assert list(files) == ["FM-999-1.json"]
    assert (tmp_path / "back" / "FM-999-1.json").read_bytes() == content


def test_a_stored_record_keeps_its_claims(tmp_path):
    imported, _ = stored(tmp_path)
    kept = json.loads((imported / "FM-999-1.json").read_text())

    assert kept["imported"] == "failure-map"
    assert {claim["result"] for claim in kept["claims"]} == {"holds", "cannot be checked"}


def test_storing_again_replaces_the_record_and_nothing_else(tmp_path):
    imported, _ = stored(tmp_path)
    (imported / "FA-1.json").write_text("mine")

    stored(tmp_path)

    assert sorted(path.name for path in imported.iterdir()) == ["FA-1.json", "FM-999-1.json"]


def test_a_file_of_that_name_that_was_not_stored_is_refused(tmp_path):
    imported, _ = stored(tmp_path)
    (imported / "FM-999-1.json").write_text("mine")

    with pytest.raises(InvalidArgument, match=r"FM-999-1.json' is there and is no stored record; nothing was written"):
        stored(tmp_path)
    assert (imported / "FM-999-1.json").read_text() == "mine"


def test_a_folder_without_stored_records_gives_nothing_back(tmp_path):
    (tmp_path / "empty").mkdir()

    with pytest.raises(InvalidArgument, match=r"^--imported '.*/empty' holds no record in the form failure-map; store"):
        give_back(tmp_path / "back", tmp_path / "empty")
    assert not (tmp_path / "back").exists()


def test_a_file_that_no_import_stored_is_named(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("{}")

    with pytest.raises(RecordError, match=r"^record='a.json' is none that `failuremap import --out` has stored\.$"):
        give_back(tmp_path / "back", tmp_path / "in")


def test_our_form_is_read_by_the_strict_model():
    content = export_files(all_cases(), "open", ["failure-map"])["failure-map/FM-001-1.json"]
    record = parse_record(content.decode(), "ours")

    assert (record.verification.broken.elapsed_ms, record.provenance.generated_at, record.provenance.python) == (
        None,
        None,
        None,
    )
    assert canary_line("open") in record.provenance.created_by


def test_every_format_is_written_unless_others_are_asked_for():
    tops = {name.partition("/")[0] for name in export_files(all_cases(), "open")}

    assert tops >= {"cases.jsonl", "cases.parquet", "croissant.json", "README.md", "failure-map", "bundles"}
    assert len(FORMATS) == 6


def test_an_open_family_whose_text_names_one_that_is_held_back_is_released_without_the_name(monkeypatch):
    held_back = next(slug for slug, entry in mechanisms().items() if split_of(entry.group) == "held-back")
    entry = replace(mechanism("partials-averaged"), limitations=f"One is zero-total; one is {held_back}.")
    monkeypatch.setitem(mechanisms(), "partials-averaged", entry)

    (case,) = released_cases([f"FM-{entry.number:03d}-1"])

    assert case.limitations == "One is zero-total; one is another mechanism."


def test_a_family_that_is_held_back_may_name_another(monkeypatch):
    slug, other = [slug for slug, entry in mechanisms().items() if split_of(entry.group) == "held-back"][:2]
    monkeypatch.setitem(mechanisms(), slug, replace(mechanism(slug), limitations=f"It is {other}."))

    assert released_cases([slug])[0].limitations == f"It is {other}."


def test_a_related_name_that_is_none_is_named(monkeypatch):
    entry = replace(mechanism("divided-twice"), related=("divided-thrice",))
    monkeypatch.setitem(mechanisms(), "divided-twice", entry)

    with pytest.raises(
        RecordError, match=r"^slug='divided-twice': related='divided-thrice' names no mechanism of the catalogue\.$"
    ):
        released_cases(["divided-twice"])


def test_an_entry_without_code_is_no_case(monkeypatch):
    entry = replace(mechanism("divided-twice"), stages=None)
    monkeypatch.setattr("failuremap.catalogue.exchange.cases.case_of", lambda _: (entry, None))

    with pytest.raises(
        InvalidArgument, match=r"^slug='divided-twice' is an entry without code; there is no case of it"
    ):
        released_cases(["divided-twice"])


def test_cases_are_named_by_slug_id_or_alias_and_come_once():
    named = released_cases(["FA-99241", "FM-001-3", "FM-001-1"])

    assert [case.id for case in named] == ["FM-001-1", "FM-001-3"]
    assert [case.variant for case in released_cases(["replica-means-ignore-counts"])] == [1, 2, 3, 4, 5]


def test_another_key_gives_other_salts_and_the_same_repair():
    (published,), (hidden,) = released_cases(["FM-001-1"]), released_cases(["FM-001-1"], b"k" * 32)

    assert set(published.member_only.salts.values()) & set(hidden.member_only.salts.values()) == set()
    assert published.repair == hidden.repair


@pytest.mark.parametrize("content", [b"short", b""])
def test_a_key_that_is_short_is_refused(tmp_path, content):
    (tmp_path / "key").write_bytes(content)

    with pytest.raises(
        InvalidArgument, match=rf"^--key '.*/key' has {len(content)} bytes; expected a file of at least"
    ):
        read_key(tmp_path / "key")


@pytest.mark.parametrize(
    ("path", "reason"),
    [("none", "can't be read: No such file or directory"), ("/dev/zero", "is no regular file; expected one of random")],
)
def test_a_key_that_is_no_file_is_refused(tmp_path, path, reason):
    with pytest.raises(InvalidArgument, match=rf"^--key '.*' {reason}"):
        read_key(tmp_path / path)


def test_a_key_is_read_as_it_is(tmp_path):
    (tmp_path / "key").write_bytes(b"k" * 32)

    assert read_key(tmp_path / "key") == b"k" * 32


@pytest.mark.slow
def test_the_whole_catalogue_is_released_and_no_open_family_names_one_that_is_held_back():
    cases = released_cases()
    held_back = {case.family for case in cases if case.split == "held-back"}

    assert {case.split for case in cases} == {"open-access", "held-back"}
    assert [case.id for case in cases if case.split == "open-access" and held_back & set(case.related)] == []
    assert len({case.id for case in cases}) == len(cases)
