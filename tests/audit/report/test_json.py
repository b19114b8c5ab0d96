"""JSON, its published schema, and files written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from audit.report.samples import HOSTILE_NAMES, ODD_NUMBERS, RIGHT, SAMPLES
from failuremap.audit.model import Verdict
from failuremap.audit.report.json_ import check_writable, schema, schema_text, to_json, write
from failuremap.errors import InvalidArgument

PUBLISHED = Path(__file__).parents[3] / "docs" / "verdict.schema.json"


def refuse_literal(literal: str) -> float:
    """Fail on NaN and Infinity, which Python's parser takes and others refuse."""
    raise AssertionError(f"{literal} is not JSON")


@pytest.mark.parametrize("name", SAMPLES)
def test_json_is_valid_and_follows_the_schema(name: str):
    parsed = json.loads(to_json(SAMPLES[name]), parse_constant=refuse_literal)

    jsonschema.Draft202012Validator(schema()).validate(parsed)


def test_the_schema_refuses_what_is_no_verdict():
    validator = jsonschema.Draft202012Validator(schema())
    right = json.loads(to_json(RIGHT))

    assert validator.is_valid(right)
    assert not validator.is_valid(right | {"outcome": "fine"})
    assert not validator.is_valid(right | {"unknown": 1})
    assert not validator.is_valid(right | {"schema_version": 2})
    assert not validator.is_valid({key: value for key, value in right.items() if key != "sentence"})


def test_the_schema_allows_only_three_strings_for_a_number():
    validator = jsonschema.Draft202012Validator(schema())
    odd = json.loads(to_json(ODD_NUMBERS))

    assert odd["evidence"]["residual"] == "NaN"
    assert validator.is_valid(odd)
    assert not validator.is_valid(odd | {"evidence": odd["evidence"] | {"residual": "small"}})


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "odd_numbers"])
def test_a_verdict_is_read_back_as_it_was(name: str):
    assert Verdict.model_validate_json(to_json(SAMPLES[name])) == SAMPLES[name]


def test_what_is_no_finite_number_is_read_back_as_it_was():
    back = Verdict.model_validate_json(to_json(ODD_NUMBERS))

    assert back.evidence.coefficient_error == math.inf
    assert math.isnan(back.cells[0].share or 0)


def test_keys_stand_in_the_order_of_the_schema():
    assert list(json.loads(to_json(HOSTILE_NAMES))) == list(schema()["properties"])
    assert to_json(HOSTILE_NAMES) == to_json(HOSTILE_NAMES.model_copy(deep=True))


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(schema())


def test_the_published_schema_is_current():
    assert PUBLISHED.read_text(encoding="utf-8") == schema_text()


def test_a_report_is_written_and_replaces_the_old_one(tmp_path: Path):
    path = tmp_path / "verdict.json"
    write(path, "old")
    write(path, "neu ✓\n")

    assert path.read_bytes() == "neu ✓\n".encode()
    assert os.listdir(tmp_path) == ["verdict.json"]


def test_a_report_has_the_permissions_that_any_new_file_has(tmp_path: Path):
    (tmp_path / "usual").touch()
    write(tmp_path / "report", "text")

    assert (tmp_path / "report").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path):
    (tmp_path / "target").write_text("old", encoding="utf-8")
    (tmp_path / "link").symlink_to("target")
    write(tmp_path / "link", "new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text(encoding="utf-8") == "new"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    path = tmp_path / "verdict.json"
    write(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write(path, "new" * 100_000 + "\ud800")

    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["verdict.json"]


def test_a_disk_without_room_is_one_message_and_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "verdict.json"
    path.write_text("old", encoding="utf-8")
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "from failuremap.audit.report.json_ import write\n"
        f"write({str(path)!r}, 'x' * 5000)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)

    assert result.returncode == 1
    assert f"InvalidArgument: path={str(path)!r} cannot be written: File too large; " in result.stderr
    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["verdict.json"]


def test_a_pipe_is_written_to_and_not_replaced():
    code = "from failuremap.audit.report.json_ import *\nfor use in (check_writable, lambda path: write(path, 'text')):"
    code += "\n    use('/dev/stdout')"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)

    assert (result.returncode, result.stdout) == (0, "text")
    assert Path("/dev/stdout").is_symlink()


def test_a_full_device_is_one_message():
    with pytest.raises(InvalidArgument) as raised:
        write("/dev/full", "text")

    assert str(raised.value) == (
        "path='/dev/full' cannot be written: No space left on device; a report needs a folder in which files can be "
        "created, and room for it. Choose another path."
    )


@pytest.mark.parametrize("refuse", [check_writable, lambda path: write(path, "text")])
def test_a_folder_that_does_not_exist_is_named_with_the_line_that_makes_it(refuse, tmp_path: Path):
    path = tmp_path / "none" / "verdict.json"
    with pytest.raises(InvalidArgument) as raised:
        refuse(path)

    assert str(raised.value) == (
        f"path={str(path)!r}: there is no folder {str(path.parent)!r}; a report is written into a folder that exists. "
        f"Create it:  mkdir -p {path.parent}"
    )


@pytest.mark.parametrize("refuse", [check_writable, lambda path: write(path, "text")])
def test_a_folder_is_no_place_for_a_report(refuse, tmp_path: Path):
    with pytest.raises(InvalidArgument) as raised:
        refuse(tmp_path)

    assert str(raised.value) == f"path={str(tmp_path)!r} is a folder; a report is one file. Name a file in it."


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="/proc refuses new files to every user, root included")
@pytest.mark.parametrize("refuse", [check_writable, lambda path: write(path, "text")])
def test_a_folder_that_takes_no_files_is_one_message(refuse):
    with pytest.raises(InvalidArgument, match=r"^path='/proc/verdict.json' cannot be written: .*; a report needs "):
        refuse("/proc/verdict.json")


def test_the_check_before_a_job_leaves_no_trace_and_no_change(tmp_path: Path):
    path = tmp_path / "verdict.json"
    path.write_text("old", encoding="utf-8")
    check_writable(path)
    check_writable(tmp_path / "other.json")

    assert os.listdir(tmp_path) == ["verdict.json"]
    assert path.read_text(encoding="utf-8") == "old"
