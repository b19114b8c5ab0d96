"""Audits inside tests: what is asserted, what it says when it fails, and what cannot be run."""

from __future__ import annotations

import subprocess
import sys

import pytest

from audit.report import samples
from failuremap.audit.report.terminal import text
from failuremap.audit.testing import Audited, Auditor
from failuremap.errors import InvalidArgument


def audited(verdict):
    return Audited(verdict, text(verdict))


def test_a_right_job_passes_and_a_wrong_one_fails_with_the_report():
    audited(samples.RIGHT).assert_right()

    with pytest.raises(AssertionError) as failed:
        audited(samples.COUNTS_IGNORED).assert_right()
    assert str(failed.value).startswith(f"the audit says 'wrong', expected 'right'\n✗ wrong  {samples.HEAVY_RANK}\n")


@pytest.mark.parametrize("verdict", [samples.CANNOT_TELL, samples.NOT_MEASURED, samples.SCRIPT_FAILED])
def test_what_could_not_be_judged_is_not_right(verdict):
    with pytest.raises(AssertionError, match=f"the audit says '{verdict.outcome}', expected 'right'"):
        audited(verdict).assert_right()


def test_a_name_is_asserted_and_a_wrong_one_fails():
    audited(samples.COUNTS_IGNORED).assert_named("replica-means-ignore-counts")

    with pytest.raises(AssertionError) as failed:
        audited(samples.COUNTS_IGNORED).assert_named("divided-twice")
    assert str(failed.value).startswith(
        "the audit says 'wrong' with replica-means-ignore-counts, expected 'divided-twice'\n"
    )
    with pytest.raises(AssertionError, match="the audit says 'right', expected 'divided-twice'"):
        audited(samples.RIGHT).assert_named("divided-twice")


def test_a_script_that_is_nowhere_is_refused(tmp_path):
    with pytest.raises(InvalidArgument) as refused:
        Auditor(tmp_path)("nowhere.py")

    assert str(refused.value).startswith(f"script='nowhere.py' doesn't exist (looked in {tmp_path}, ")


@pytest.mark.parametrize("function", [lambda: None, print, Auditor])
def test_a_function_that_another_process_cannot_find_is_refused(function):
    with pytest.raises(InvalidArgument, match="it has to be a function that stands at the top level of a file"):
        Auditor()(function)


def test_arguments_that_json_has_not_are_refused():
    with pytest.raises(InvalidArgument, match="give numbers, strings, lists and dicts"):
        Auditor()(audited, verdict=object())


def test_a_script_takes_words_alone():
    with pytest.raises(InvalidArgument, match="size: a script takes no keyword arguments; give options as words"):
        Auditor()("train.py", size=3)


def test_the_fixture_is_there_and_brings_nothing_where_it_is_not_used(tmp_path):
    (tmp_path / "test_plain.py").write_text(
        "import sys\ndef test_it():\n    assert not {'failuremap.audit.testing', 'torch'} & sys.modules.keys()\n"
    )

    result = pytest_in(tmp_path)

    assert result.returncode == 0, result.stdout


def pytest_in(folder, *options):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


TRAIN = """
import sys
import torch, torch.distributed as dist, torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

def train(sizes, right=False):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 4))
    step = torch.optim.SGD(model.parameters(), lr=0.1)
    own, total = sizes[rank][0], sum(row[0] for row in sizes)
    for _ in range(3):
        loss = F.cross_entropy(model(torch.randn(own, 8)), torch.zeros(own, dtype=torch.long), reduction="sum")
        (loss * world / total if right else loss / own).backward()
        step.step(); step.zero_grad()
    dist.destroy_process_group()

if __name__ == "__main__":
    train([[3], [5]])
"""

TESTS = """
from train import train

def test_script(audit):
    audit("train.py", nproc=2).assert_right()

def test_function(audit):
    audit(train, nproc=2, sizes=audit.sizes(2), right=True).assert_right()

def test_name(audit):
    audited = audit(train, nproc=2, sizes=audit.sizes(2))
    audited.assert_named("replica-means-ignore-counts")
    assert audited.verdict.sentence == "An example on rank 0 weighs 1.40 times an example on rank 1."
"""


@pytest.mark.slow
@pytest.mark.torch
def test_tests_of_a_script_and_of_a_function_run_on_several_workers(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "test_train.py").write_text(TESTS)

    result = pytest_in(tmp_path, "-n", "2")

    assert "1 failed, 2 passed" in result.stdout, result.stdout
    assert "AssertionError: the audit says 'wrong', expected 'right'" in result.stdout
    assert "An example on rank 0 weighs 1.67 times an example on rank 1." in result.stdout
