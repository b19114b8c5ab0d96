"""The audit's verdict on each training job of the corpus."""

from __future__ import annotations

import pytest

from audit.harness import JobServer, audit_case
from jobs.expectations import CASES, Case

pytestmark = pytest.mark.torch

PARAMS = [pytest.param(c, id=c.name, marks=pytest.mark.slow if c.slow else ()) for c in CASES]


@pytest.mark.parametrize("case", PARAMS)
def test_verdict(job_server: JobServer, case: Case) -> None:
    got = audit_case(job_server, case)

    assert got.as_expected, f"{got.outcome} {got.slugs}: {got.sentence}; expected {case.outcomes} {case.slugs}"
