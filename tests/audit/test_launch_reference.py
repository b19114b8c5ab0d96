"""What is wrong with --reference is said before the job has cost anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from failuremap.audit.launch.reference import FAILED, GRADIENTS, find_reference
from failuremap.errors import InvalidArgument

SIGNATURE = "It is to compute the loss of one batch:  def objective(model, batch): ... return loss_sum, count"
OBJECTIVE = "def objective(model, batch):\n    return 1, 2\n"


@pytest.fixture
def ref(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ref.py").write_text(OBJECTIVE)
    return tmp_path / "ref.py"


def test_a_file_and_a_function_are_found_without_running_the_file(ref):
    ref.write_text("raise SystemExit\n" + OBJECTIVE)

    found = find_reference("ref.py:objective")

    assert (found.path, found.function, found.wanted) == (ref, "objective", "model")


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ("build = 3", ""),
        ("def build(): ...", ""),
        ("from net import Net as build", ""),
        ("shards = {}", "model,every-rank"),
        ("shards: dict = {}\nbuild = 1", "every-rank"),
    ],
)
def test_what_the_job_must_keep_follows_from_what_the_file_defines(more, wanted, ref):
    ref.write_text(OBJECTIVE + more)

    assert find_reference("ref.py:objective").wanted == wanted


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ref.py", "--reference='ref.py': a file and a function in it, as in  --reference ref.py:objective"),
        (":objective", "--reference=':objective': a file and a function in it, as in  --reference ref.py:objective"),
        ("ref.py:a-b", "--reference='ref.py:a-b': a file and a function in it, as in  --reference ref.py:objective"),
        ("no.py:objective", "--reference='no.py:objective': the file 'no.py' doesn't exist (looked in '{folder}')."),
        (
            "ref.py:loss",
            f"--reference='ref.py:loss': ref.py has no function 'loss' (its functions: objective). {SIGNATURE}",
        ),
    ],
)
def test_a_reference_that_is_not_there_is_refused(text, told, ref):
    with pytest.raises(InvalidArgument) as caught:
        find_reference(text)

    assert str(caught.value) == told.format(folder=ref.parent)


def test_a_file_that_is_no_python_is_refused_with_its_line(ref):
    ref.write_text("def objective(:\n")

    with pytest.raises(InvalidArgument, match=r"^--reference='ref.py:objective': ref.py:1 is no Python: "):
        find_reference("ref.py:objective")


@pytest.mark.torch
@pytest.mark.slow
def test_the_run_leaves_its_gradients_or_why_there_are_none(ref):
    folder = Path(ref.parent / "trace")
    folder.mkdir()
    before = dict(os.environ)

    find_reference("ref.py:objective").run(folder, None)

    assert (folder / GRADIENTS).exists()
    assert not (folder / FAILED).exists()
    assert dict(os.environ) == before


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "timeout", "told"),
    [
        ("import os; os._exit(9)", None, "its process exited with code 9"),
        ("import time; time.sleep(60)", 0.5, "it was still running after 0.5 s (--timeout 0.5)"),
    ],
)
def test_a_run_that_dies_or_hangs_is_told(body, timeout, told, ref):
    ref.write_text(body + "\n" + OBJECTIVE)
    folder = Path(ref.parent / "trace")
    folder.mkdir()

    find_reference("ref.py:objective").run(folder, timeout)

    assert (folder / FAILED).read_text() == told
