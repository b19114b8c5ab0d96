"""The recorded runs: written and read back whole, up to date with the scripts, and different where a run differs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from failuremap.catalogue import STAGES, VARIANTS, mechanisms, render
from failuremap.catalogue.recording import FOLDER, Recording, difference, read_recordings, write_recordings
from failuremap.catalogue.run import Run
from failuremap.errors import RecordError

SLUG = "partials-averaged"
REPORT = {"observations": [{"check": "a", "actual": [1.0], "expected": [2], "passed": False}], "passed": False}
AGAIN = "Record it:  failuremap verify a --record"
ONE = Recording("0" * 64, 1, json.dumps(REPORT), "")


def test_the_recorded_runs_are_of_the_scripts_as_they_are():
    stale = [
        f"{slug} {stage} N={variant}"
        for slug, entry in mechanisms().items()
        if entry.stages
        for recordings in [read_recordings(slug)]
        for stage in STAGES
        for variant in VARIANTS
        if sha256(render(entry, stage, variant)) != getattr(recordings.get((stage, variant)), "sha256", None)
    ]

    assert stale == [], "record them: make records"


def test_every_file_of_recorded_runs_is_of_a_mechanism():
    assert {path.stem for path in FOLDER.glob("*.json")} - set(mechanisms()) == set()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_what_is_written_is_read_back(tmp_path):
    recordings = read_recordings(SLUG)

    write_recordings("copy", recordings, tmp_path / "new")

    assert read_recordings("copy", tmp_path / "new") == recordings
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["copy.json"]
    assert (tmp_path / "new" / "copy.json").read_bytes() == (FOLDER / f"{SLUG}.json").read_bytes()


def test_half_of_the_runs_are_not_written(tmp_path):
    with pytest.raises(KeyError):
        write_recordings("half", {("broken", 1): ONE}, tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_nothing_recorded_is_nothing():
    assert read_recordings("no-such-mechanism") == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"1": {}}', '{"1": {"broken": {"sha": ""}}}', "\x00"])
def test_a_damaged_file_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)

    with pytest.raises(
        RecordError, match=r"^recorded='a\.json' can't be read: .* Record it:  failuremap verify a --record$"
    ):
        read_recordings("a", tmp_path)


def recorded_with(change):
    """Return the recorded runs of a mechanism as they are stored, with one thing changed."""
    stored = json.loads((FOLDER / f"{SLUG}.json").read_text())
    change(stored)
    return json.dumps(stored)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: it.pop("5"), "it has N="),
        (lambda it: it.update({"6": it["1"]}), "it has N="),
        (lambda it: it["1"].pop("attempt"), "'attempt'"),
        (lambda it: it["1"]["broken"].update(exit_code=True), "is of another type"),
        (lambda it: it["1"]["broken"].update(stdout=None), "is of another type"),
        (lambda it: it["1"]["broken"].update(more=1), "unexpected keyword argument 'more'"),
    ],
)
def test_recorded_runs_that_are_not_whole_are_refused(tmp_path, change, reason):
    (tmp_path / "a.json").write_text(recorded_with(change))

    with pytest.raises(RecordError, match=rf"^recorded='a\.json' can't be read: .*{reason}"):
        read_recordings("a", tmp_path)


def test_negative_control_recorded_runs_as_they_are_stored_are_read(tmp_path):
    (tmp_path / "a.json").write_text(recorded_with(lambda it: None))

    assert read_recordings("a", tmp_path) == read_recordings(SLUG)


def test_a_folder_in_place_of_the_recorded_runs_is_refused(tmp_path):
    (tmp_path / "a.json").mkdir()

    with pytest.raises(RecordError, match=r"^recorded='a\.json' can't be read: IsADirectoryError"):
        read_recordings("a", tmp_path)


def test_a_recording_is_made_of_a_script_and_its_run():
    made = Recording.of("pass", Run(0, (), "out", "err"))

    assert made == Recording(sha256("pass"), 0, "out", "err")


def other(actual: object) -> str:
    return json.dumps({**REPORT, "observations": [{**REPORT["observations"][0], "actual": actual}]})


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (ONE, ""),
        (
            replace(ONE, sha256="1" * 64),
            f"another script was recorded: sha256={'0' * 12}..., now {'1' * 12}.... {AGAIN}",
        ),
        (replace(ONE, exit_code=0), "exit_code=0; 1 was recorded"),
        (replace(ONE, stderr="oh"), "stderr='oh'; '' was recorded"),
        (replace(ONE, stdout=other([1.5])), "check='a' gave [1.5]; [1.0] was recorded"),
        (replace(ONE, stdout=other([1])), "check='a' gave [1]; [1.0] was recorded"),
        (replace(ONE, stdout=json.dumps({**REPORT, "more": 1})), "the script prints another report than was recorded"),
        (replace(ONE, stdout="hello"), "the script prints another report than was recorded"),
    ],
)
def test_a_difference_is_named(seen, message):
    assert difference("a", ONE, seen) == message


def test_a_run_that_was_never_recorded_differs():
    assert difference("a", None, ONE) == f"no run is recorded. {AGAIN}"
