"""The families of a suite, and the layout of a folder of candidates: what fits, and what is said of all else."""

from __future__ import annotations

import re

import pytest

from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.exchange.tiers import contract_id
from failuremap.catalogue.shelf import mechanisms
from failuremap.errors import InvalidArgument
from failuremap.score.suite import families, find_candidates


def lay(folder, *paths):
    """Make empty candidates at these paths."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    return folder


def found(folder, suite="open"):
    return [sample.place for sample in find_candidates(folder, suite).samples]


def test_every_family_with_code_is_in_the_open_or_in_the_sealed_suite():
    with_code = {slug for slug, entry in mechanisms().items() if entry.stages}

    assert set(families("open")) | set(families("sealed")) == with_code
    assert not set(families("open")) & set(families("sealed"))


def test_no_group_is_in_two_suites():
    groups = [{entry.group for entry in families(suite).values()} for suite in ("open", "sealed")]

    assert not groups[0] & groups[1]


def test_one_system_is_named_like_the_folder(tmp_path):
    folder = lay(
        tmp_path / "me", "partials-averaged/sample-1.py", "partials-averaged/sample-12.py", "FM-001-2/sample-1.py"
    )

    assert found(folder) == [("me", "FM-002", 1), ("me", "FM-002", 12), ("me", "FM-001-2", 1)]
    assert find_candidates(folder, "open").systems == ("me",)


def test_several_systems_have_a_folder_each(tmp_path):
    lay(
        tmp_path,
        "a/FM-002/sample-1.py",
        "b/FA-99241/sample-1.py",
        "b/FM-002/sample-1.py",
        ".DS_Store",
        "a/__pycache__/x",
    )

    assert found(tmp_path) == [("a", "FM-002", 1), ("b", "FM-002", 1), ("b", "FM-001-1", 1)]


def test_names_of_other_suites_are_left_alone_and_told(tmp_path):
    sealed = next(iter(families("sealed")))
    lay(tmp_path, f"{sealed}/sample-1.py", "partials-averaged/sample-1.py")

    assert find_candidates(tmp_path, "open").elsewhere == (sealed,)
    assert [sample.family for sample in find_candidates(tmp_path, "sealed").samples] == [sealed]


def test_a_sealed_family_may_be_named_by_its_contract(tmp_path):
    slug, entry = next(iter(families("sealed").items()))
    (case,) = released_cases([f"FM-{entry.number:03d}-1"])
    lay(tmp_path, f"{contract_id(case)}/sample-1.py")

    assert [sample.family for sample in find_candidates(tmp_path, "sealed").samples] == [slug]


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (
            ["x/y/sample-1.py"],
            r"'.*/x/y': name='y' is no family and no case to be scored; expected DIR/NAME/sample-1.py",
        ),
        (
            ["partials-averaged/sample-0.py"],
            r"sample-0.py' is no sample; expected the name sample-K.py, K counted from 1.",
        ),
        (["partials-averaged/sample-01.py"], r"sample-01.py' is no sample"),
        (["partials-averaged/answer.py"], r"answer.py' is no sample"),
        (
            ["readme.txt", "partials-averaged/sample-1.py"],
            r"readme.txt' is no folder; expected DIR/NAME/sample-1.py or",
        ),
        (["a/FM-002/sample-1.py", "a/notes"], r"a/notes' is no folder"),
        (
            ["FM-002/sample-1.py", "partials-averaged/sample-1.py"],
            r"are both for family='partials-averaged'; give one folder for the family, or one for each of its cases.",
        ),
        (["FM-002-1/sample-1.py", "FM-002/sample-1.py"], "are both for family='partials-averaged'"),
        (["FM-002-1/sample-1.py", "FA-99246/sample-1.py"], "are both for family='partials-averaged'"),
    ],
)
def test_a_folder_laid_out_otherwise_is_refused(tmp_path, paths, message):
    lay(tmp_path, *paths)

    with pytest.raises(InvalidArgument, match=message):
        find_candidates(tmp_path, "open")


def test_no_folder_and_an_empty_one_are_refused(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "empty" / "FM-002").mkdir(parents=True)

    for path, message in [("absent", "doesn't exist"), ("file", "is no folder"), ("empty", "holds no candidate")]:
        with pytest.raises(InvalidArgument, match=re.escape(f"--candidates {str(tmp_path / path)!r} {message}")):
            find_candidates(tmp_path / path, "open")
