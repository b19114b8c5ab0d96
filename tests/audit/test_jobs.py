"""The audit's verdict on each training job of the corpus."""

from __future__ import annotations

import pytest

from audit.harness import JobServer, audit_case
from jobs.expectations import CASES, Case

pytestmark = pytest.mark.torch


def representatives() -> set[str]:
    """The first row of each script that is right, that is wrong, and of each mechanism; on three ranks at most.

    The other rows repeat these with other options, and are slow together.
    """
    found: dict[object, str] = {}
    for case in CASES:
        if case.slow or case.nproc is None or case.nproc > 3:
            continue
        for kind in ((case.script, case.outcomes), case.slugs[:1]):
            found.setdefault(kind, case.name)
    return set(found.values())


QUICK = representatives()
PARAMS = [pytest.param(c, id=c.name, marks=() if c.name in QUICK else pytest.mark.slow) for c in CASES]


@pytest.mark.parametrize("case", PARAMS)
def test_verdict(job_server: JobServer, case: Case) -> None:
    got = audit_case(job_server, case)

    assert got.as_expected, f"{got.outcome} {got.slugs}: {got.sentence}; expected {case.outcomes} {case.slugs}"


def test_the_quick_rows_hold_every_script_and_every_mechanism() -> None:
    quick = [case for case in CASES if case.name in QUICK]

    assert {case.script for case in quick} | {"regression_spawn.py"} == {c.script for c in CASES}
    assert {case.slugs[:1] for case in quick} == {case.slugs[:1] for case in CASES}
    assert len(quick) <= 100
