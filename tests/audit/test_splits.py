"""The audit's verdict on other ways to split a job."""

from __future__ import annotations

import pytest

from audit.harness import JobServer, audit_case
from jobs.expectations import Case
from jobs.split.cases import CASES

pytestmark = [pytest.mark.torch, pytest.mark.slow]
SAID = {
    "pipeline-alike": "if they are meant to be one weight, the gradients of its copies are not added up",
    "hand-stages-tied-apart": "if they are meant to be one weight, the gradients of its copies are not added up",
    "hand-stages-twice": "what a stage sends back is not seen to be the gradient of its input",
    "hand-stages-scaled": "which pass goes on from which can't be told",
    "context-two-pairs-averaged": "the factor 1/2 is the size of the groups of 2 ranks, out of 4",
    "context-detached": "the part of the gradient that crosses the ranks is missing (gathered-part-detached)",
    "experts-in-groups": "groups of ranks each step on their own gradients of expert.bias, expert.weight",
    "two-models": "ranks 0, 1 and ranks 2, 3 step on different parameters",
}


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for cases in CASES.values() for case in cases])
def test_verdict(job_server: JobServer, case: Case) -> None:
    got = audit_case(job_server, case)

    assert got.as_expected, f"{got.outcome} {got.slugs}: {got.sentence} {got.reasons}; expected {case.outcomes}"
    if got.outcome not in {"right", "wrong"}:
        (said,) = [said for name, said in SAID.items() if case.name == name or case.name.startswith(f"{name}-")]
        assert said in "\n".join(got.reasons)
