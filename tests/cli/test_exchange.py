"""import and export as a user meets them: tables, JSON, exit codes, and errors in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catalogue.exchange.making import all_cases, case_of
from failuremap.audit.command_line import run_command
from failuremap.catalogue.exchange.export import export_files
from failuremap.cli import main


@pytest.fixture
def record(tmp_path) -> Path:
    """An open record in the form failure-map, in a file."""
    path = tmp_path / "FM-001-1.json"
    path.write_bytes(export_files(all_cases(), "open", ["failure-map"])["failure-map/FM-001-1.json"])
    return path


@pytest.fixture
def wrong(record) -> Path:
    """The same with another count of checks."""
    path = record.parent / "wrong.json"
    path.write_text(record.read_text().replace('"checks":7', '"checks":8'))
    return path


@pytest.fixture(autouse=True)
def _small_catalogue(monkeypatch):
    monkeypatch.setattr("failuremap.cli.exchange.released_cases", lambda names, key: all_cases())


def test_a_record_that_holds_is_a_table_and_exit_code_0(record, capsys):
    assert run_command(main, ["import", str(record)]) == 0

    first, *rows, last = capsys.readouterr().out.splitlines()
    assert first == "FM-001-1  (FM-001-1.json)"
    assert any(row.startswith("  holds              implementations.broken.sha256 ") for row in rows)
    assert any(row.startswith("  cannot be checked  sha256 ") for row in rows)
    assert last == "  35 claims: 27 hold, 8 cannot be checked, none fails"


def test_a_record_that_fails_names_its_claims_and_is_exit_code_1(wrong, capsys):
    assert run_command(main, ["import", str(wrong)]) == 1

    *_, last = capsys.readouterr().out.splitlines()
    assert last.endswith("2 fail: verification.broken.observations, verification.attempt.observations")


def test_the_claims_of_several_records_are_json(record, wrong, capsys):
    assert run_command(main, ["import", "--json", str(record), str(wrong)]) == 1

    told = json.loads(capsys.readouterr().out)
    assert told["holds"] is False
    assert [one["holds"] for one in told["records"]] == [True, False, False]
    assert told["records"][0]["claims"][0] == {
        "claim": "form",
        "result": "holds",
        "reason": "failure-map: no field is missing or unknown; its bytes are those that export gives back",
    }


def test_what_is_imported_is_stored_and_given_back(record, tmp_path, capsys):
    assert run_command(main, ["import", str(record), "--out", str(tmp_path / "kept")]) == 0
    words = ["export", "--format", "failure-map", "--imported", str(tmp_path / "kept"), "--out", str(tmp_path / "back")]
    assert run_command(main, words) == 0

    assert (tmp_path / "back" / "FM-001-1.json").read_bytes() == record.read_bytes()
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"1 file in {tmp_path}/back, ")


def test_what_is_of_another_form_is_named_where_it_is_not_given_back(record, tmp_path, capsys):
    (tmp_path / "case.json").write_text(case_of("replica-means-ignore-counts").to_open().to_json())
    other = tmp_path / "FA-1.json"
    other.write_text(record.read_text().replace('"id":"FM-001-1"', '"id":"FA-1"'))
    run_command(main, ["import", str(tmp_path / "case.json"), str(other), "--out", str(tmp_path / "kept")])

    words = ["export", "--format", "failure-map", "--imported", str(tmp_path / "kept"), "--out", str(tmp_path / "back")]
    assert run_command(main, words) == 0

    assert capsys.readouterr().err == "not given back, being of another form: FM-001-1\n"
    assert (tmp_path / "back" / "FA-1.json").read_bytes() == other.read_bytes()


def test_what_a_terminal_would_follow_is_escaped(tmp_path, capsys):
    (tmp_path / "\x1b[31m.json").write_text('{"\\u009b": 1}')

    assert run_command(main, ["import", str(tmp_path / "\x1b[31m.json")]) == 1

    shown = capsys.readouterr().out
    assert "\\x1b[31m.json" in shown
    assert shown.replace("\n", "").isprintable()


def test_what_fails_is_not_stored(wrong, tmp_path, capsys):
    assert run_command(main, ["import", str(wrong), "--out", str(tmp_path / "kept")]) == 1

    assert capsys.readouterr().err == f"nothing was stored in {tmp_path}/kept: a claim fails\n"
    assert not (tmp_path / "kept").exists()


def test_an_export_is_a_folder(tmp_path, capsys):
    words = ["export", "--tier", "member", "--format", "jsonl", "--format", "bundles", "--out", str(tmp_path / "out")]

    assert run_command(main, words) == 0
    assert capsys.readouterr().out.startswith(f"5 files in {tmp_path}/out, ")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "cases.jsonl", "contracts.jsonl", "bundles", "SHA256SUMS",
    }  # fmt: skip


def test_everything_is_exported_for_strangers_unless_said_otherwise(tmp_path):
    assert run_command(main, ["export", "--out", str(tmp_path / "out")]) == 0

    text = (tmp_path / "out" / "cases.jsonl").read_text()
    assert case_of("replica-means-ignore-counts").repair not in text
    assert (tmp_path / "out" / "croissant.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["import"], "Missing argument 'FILE...'."),
        (["export"], "Missing option '--out'."),
        (["export", "--tier", "gold", "--out", "x"], "'gold' is not one of 'open', 'member', 'sealed'."),
        (
            ["export", "--imported", "x", "--out", "y"],
            "--imported gives foreign records back: with --format failure-map",
        ),
        (
            ["export", "--format", "failure-map", "--imported", "x", "--tier", "member", "--out", "y"],
            "--imported gives foreign records back: with --format failure-map, without NAME, --key or --tier.",
        ),
        (["export", "--out", "no/such/place"], "there is no folder 'no/such'; make it first."),
    ],
)
def test_bad_usage_is_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)

    assert run_command(main, words) == 2

    shown = capsys.readouterr().err
    assert message in shown
    assert shown.startswith("error: ")
    assert list(tmp_path.iterdir()) == []
