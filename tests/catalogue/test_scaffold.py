"""A new mechanism starts as two files that load, are found, and are called unfinished until they are finished."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from catalogue import test_mechanisms as completeness
from failuremap.catalogue import mechanism, mechanisms
from failuremap.catalogue.scaffold import main, scaffold
from failuremap.errors import InvalidArgument


@pytest.fixture
def catalogue(tmp_path, monkeypatch):
    """An empty catalogue's folder beside the real one, in which discovery looks as well."""
    for name in ("mechanisms", "live"):
        (tmp_path / name).mkdir()
    shelf = sys.modules["failuremap.catalogue.mechanisms"]
    monkeypatch.setattr(shelf, "__path__", [*shelf.__path__, str(tmp_path / "mechanisms")])
    mechanisms.cache_clear()
    yield tmp_path
    mechanisms.cache_clear()
    sys.modules.pop("failuremap.catalogue.mechanisms.padding_counted", None)


def test_the_new_file_is_found_and_loads(catalogue):
    path, live = scaffold("padding-counted", catalogue)
    mechanisms.cache_clear()

    entry = mechanism("padding-counted")

    assert (entry.slug, entry.title) == ("padding-counted", "Padding counted")
    assert entry.stages
    assert path == catalogue / "mechanisms" / "padding_counted.py"
    assert live == catalogue / "live" / "padding_counted.py"
    ast.parse(live.read_text())


def test_its_number_is_the_next_one(catalogue):
    before = max(entry.number for entry in mechanisms().values())
    scaffold("padding-counted", catalogue)
    mechanisms.cache_clear()

    assert mechanism("padding-counted").number == before + 1


def test_it_is_incomplete_until_it_is_filled_in(catalogue):
    scaffold("padding-counted", catalogue)
    mechanisms.cache_clear()
    entry, complete = mechanism("padding-counted"), mechanism("replica-means-ignore-counts")

    with pytest.raises(AssertionError):
        completeness.test_an_entry_is_complete(entry)
    with pytest.raises(AssertionError):
        completeness.test_an_entry_can_be_recognised_or_says_why_not(entry)

    own = {"slug": entry.slug, "title": entry.title, "number": entry.number}
    filled = replace(entry, **{one.name: getattr(complete, one.name) for one in fields(complete)} | own)
    completeness.test_an_entry_is_complete(filled)
    completeness.test_an_entry_can_be_recognised_or_says_why_not(filled)


def test_every_field_of_an_entry_that_is_shown_is_in_the_file(catalogue):
    path, _ = scaffold("padding-counted", catalogue)
    text = path.read_text()
    left_out = {one.name for one in fields(mechanism("replica-means-ignore-counts")) if f"    {one.name}=" not in text}

    assert left_out == {
        "law", "by_signs_alone", "never", "audit_blind", "alias", "stages",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["", "Padding", "padding_counted", "-a", "a--b", "9a", "../a", "class", "a" * 61])
def test_a_bad_name_is_refused(catalogue, name):
    with pytest.raises(InvalidArgument) as refused:
        scaffold(name, catalogue)

    assert str(refused.value) == (
        f"NAME={name!r} is no name of a mechanism; expected the wrong pattern in lower case, its words joined by "
        "hyphens:  make new-mechanism NAME=counts-of-padding"
    )
    assert [*catalogue.rglob("*.py")] == []


def test_a_taken_name_is_refused(catalogue):
    scaffold("padding-counted", catalogue)
    written = (catalogue / "mechanisms" / "padding_counted.py").read_text()

    for name in ("padding-counted", "divided-twice"):
        with pytest.raises(InvalidArgument, match=rf"^NAME='{name}' is taken; see  failuremap show {name}$"):
            scaffold(name, catalogue)
    assert (catalogue / "mechanisms" / "padding_counted.py").read_text() == written


def test_the_command_says_what_is_wrong_in_one_line(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("error: NAME='' is no name of a mechanism; ")


def test_the_command_says_what_it_wrote_and_what_comes_next(catalogue, monkeypatch, capsys):
    monkeypatch.setattr(scaffold, "__defaults__", (catalogue,))

    assert main(["padding-counted"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "next:    fill in both, then  failuremap verify padding-counted --record  and  make test"
    )


def test_make_has_the_target():
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()

    assert "new-mechanism: $(STAMP)" in makefile
    assert "-m failuremap.catalogue.scaffold '$(NAME)'" in makefile


def test_the_module_is_a_command():
    done = subprocess.run([sys.executable, "-m", "failuremap.catalogue.scaffold", "A"], capture_output=True, text=True)

    assert done.returncode == 2
    assert done.stderr.startswith("error: NAME='A' is no name")
