"""The audit's verdict on each training job of the corpus."""

from __future__ import annotations

import pytest

from audit.harness import JobServer, audit_case
from jobs.expectations import CASES, Case

pytestmark = pytest.mark.torch


def is_slow(case: Case) -> bool:
    """Three ranks and more on two cores, and scripts that start Python anew."""
    return case.slow or case.nproc is None or case.nproc > 2


PARAMS = [pytest.param(c, id=c.name, marks=pytest.mark.slow if is_slow(c) else ()) for c in CASES]


@pytest.mark.parametrize("case", PARAMS)
def test_verdict(job_server: JobServer, case: Case) -> None:
    got = audit_case(job_server, case)

    assert got.as_expected, f"{got.outcome} {got.slugs}: {got.sentence}; expected {case.outcomes} {case.slugs}"
