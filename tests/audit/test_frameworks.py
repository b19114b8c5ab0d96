"""The audit's verdict on jobs under frameworks, each script as its users write it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest

from audit.harness import JobServer, audit_case
from jobs.expectations import Case
from jobs.frameworks.cases import CASES, FRAMEWORKS, Framework

pytestmark = [pytest.mark.torch, pytest.mark.frameworks, pytest.mark.slow]
PARAMS = [pytest.param(name, case, id=case.name) for name, cases in CASES.items() for case in cases]


def demand(framework: Framework) -> None:
    """Skip, or fail in CI, if a framework is not installed."""
    missing = [folder.name for folder in framework.folders if not (folder / ".installed").exists()]
    if not missing:
        return
    if "all" in os.environ.get("FAILUREMAP_REQUIRE", "").split(","):
        pytest.fail(f"{missing} not in .venv-frameworks, and FAILUREMAP_REQUIRE demands it: make frameworks")
    pytest.skip(f"{missing} not in .venv-frameworks; install it: make frameworks")


@pytest.fixture(scope="module")
def framework_server() -> Iterator[Callable[[str], JobServer]]:
    """A function that returns a job server which has imported a framework, started once."""
    with contextlib.ExitStack() as stack:
        started: dict[str, JobServer] = {}

        def server(name: str) -> JobServer:
            demand(FRAMEWORKS[name])
            if name not in started:
                started[name] = stack.enter_context(JobServer(FRAMEWORKS[name].folders, FRAMEWORKS[name].modules))
            return started[name]

        yield server


@pytest.mark.parametrize(("framework", "case"), PARAMS)
def test_verdict(framework_server: Callable[[str], JobServer], framework: str, case: Case) -> None:
    got = audit_case(framework_server(framework), case)

    assert got.as_expected, f"{got.outcome} {got.slugs}: {got.sentence}; expected {case.outcomes} {case.slugs}"


def test_each_framework_has_a_right_job_and_a_wrong_one() -> None:
    assert [name for name, cases in CASES.items() if {case.is_right for case in cases} != {True, False}] == []
