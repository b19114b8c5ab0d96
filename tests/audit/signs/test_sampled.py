"""Jobs that are read in part: what shows in a short window only is found, and what was not measured is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.capture.watched import run
from audit.harness import JobServer, audit_case
from audit.judging import edited
from audit.test_jobs import representatives
from audit.traces import HandJob, of_kind
from failuremap.audit import diagnose
from failuremap.audit.model import Verdict
from failuremap.audit.report.terminal import text
from failuremap.audit.signs.sampled import NEVER_READ
from jobs.expectations import CASES, Case

pytestmark = pytest.mark.torch

SAMPLED = {"FAILUREMAP_EVERY": "64"}
# nine windows of three micro-batches in an epoch, and one of a single one: the tenth, which is read in part
ROWS = "--rows 336 --epochs 1"


def audited(server: JobServer, folder: Path, script: str, args: str, nproc: int = 1) -> Verdict:
    result = server.run_job(script, args.split(), nproc, folder, env=SAMPLED)
    assert result.ok, result.output
    return diagnose(folder)


@pytest.mark.parametrize("nproc", [1, 2])
def test_a_fault_of_the_short_window_alone_is_named_where_that_window_is_read_in_part(job_server, tmp_path, nproc):
    verdict = audited(job_server, tmp_path, "epoch_accum.py", f"--full-divisor {ROWS}", nproc)

    (finding,) = verdict.findings
    assert [candidate.slug for candidate in finding.candidates] == ["partial-window-full-divisor"]
    assert finding.steps == [10]
    assert (verdict.evidence.step_count, verdict.evidence.steps_in_full) == (10, 8)


def test_a_right_job_is_right_and_says_what_was_not_measured(job_server, tmp_path):
    verdict = audited(job_server, tmp_path, "epoch_accum.py", ROWS, 2)

    assert verdict.outcome == "right"
    assert (
        "8 of 10 steps were measured on all parameters, the others on 4 of 7: what happens to the rest at those steps "
        "was not measured (--every 1 measures all)" in verdict.notes
    )


def test_steps_that_were_all_read_in_full_need_no_word(job_server, tmp_path):
    verdict = audited(job_server, tmp_path, "epoch_accum.py", "--epochs 1")

    assert verdict.evidence.step_count == verdict.evidence.steps_in_full == 3
    assert not any("measured on all" in note for note in verdict.notes)


def in_part(records, **fields):
    """The records of a rank whose last step was read in part."""
    records[of_kind(records, "step")[-1]][0].update(in_part=True, **fields)
    return records


@pytest.mark.parametrize(
    ("last_window", "unread", "outcome"),
    [([150, 150], 1, "cannot tell"), ([150, 150], 0, "right"), ([300], 1, "right")],
)
def test_a_window_unlike_all_others_that_was_not_seen_well_enough_is_never_right(
    tmp_path, last_window, unread, outcome
):
    usual = [[300.0], [300.0]]
    job = HandJob(counts=[usual, usual, usual, [last_window, last_window]], scale=lambda counts: 1.0, steps=4)

    verdict = diagnose(edited(job, tmp_path, lambda _, records: in_part(records, unread=unread)))

    assert verdict.outcome == outcome
    open_step = (
        "step 4 has 2 micro-batches, unlike all that were judged, and was read in part only: none of the "
        "parameters that were read took part in it; audit with --every 1"
    )
    assert verdict.reasons == ([] if outcome == "right" else [open_step])


def test_a_step_that_a_few_parameters_do_not_settle_is_no_doubt_about_the_job(tmp_path):
    job = HandJob(counts=[[300.0], [200.0]], scale=lambda counts: 2 * counts / counts.sum(), steps=3)

    verdict = diagnose(edited(job, tmp_path, lambda _, records: in_part(records, unread=1)))

    assert verdict.outcome == "right"
    assert verdict.notes[-1] == (
        "1 step that was read in part is not judged: none of the parameters that were read took part in it"
    )


@pytest.mark.parametrize("later_steps", [0, 2])
def test_parameters_that_come_at_the_very_end_leave_the_verdict_open(job_server, tmp_path, later_steps):
    late = f"""
model, head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)
step, other = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (model, head))
for i in range(12 + {later_steps}):
    F.cross_entropy(head(model(torch.randn(4, 8))), torch.zeros(4, dtype=torch.long)).backward()
    step.step(); step.zero_grad()
    if i >= 11:
        other.step()
    other.zero_grad()
"""
    result = run(job_server, tmp_path, late, env=SAMPLED)
    assert result.ok, result.output

    verdict = diagnose(tmp_path / "trace")

    assert verdict.outcome == ("right" if later_steps else "cannot tell")
    assert verdict.reasons == ([] if later_steps else [NEVER_READ])


@pytest.mark.parametrize("which", ["i == 4", "i == 10", "i == 10 and p.dim() == 2"])
def test_hooks_that_someone_removes_leave_nothing_right(job_server, tmp_path, which):
    removed = """
model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(6)])
step = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(12):
    for p in model.parameters():
        if WHICH:
            p._backward_hooks.clear()
    F.cross_entropy(model(torch.randn(4, 8)), torch.zeros(4, dtype=torch.long)).backward()
    step.step(); step.zero_grad()
""".replace("WHICH", which)
    result = run(job_server, tmp_path, removed, env=SAMPLED)
    assert result.ok, result.output

    verdict = diagnose(tmp_path / "trace")

    assert verdict.outcome == "not measured"
    assert any("came through autograd" in reason or "come through autograd" in reason for reason in verdict.reasons)


LATE = """
import torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(12)])
step = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.Generator().manual_seed(dist.get_rank())
for i in range(6):
    F.cross_entropy(model(torch.randn(4, 8, generator=data)), torch.zeros(4, dtype=torch.long)).backward()
    for number, p in enumerate(model.parameters()):
        if i < 3 or number % 8:
            dist.all_reduce(p.grad)
            p.grad /= 2
    step.step(); step.zero_grad()
"""


def test_what_a_step_that_was_read_in_part_shows_is_told_as_so_many_of_those_that_were_read(job_server, tmp_path):
    result = run(job_server, tmp_path, LATE, nproc=2, env=SAMPLED | {"TESTS_FIRST_WINDOWS": "2"})
    assert result.ok, result.output

    verdict = diagnose(tmp_path / "trace", unit="example")

    first = verdict.findings[0]
    assert first.sentence.startswith("1 of the 4 parameters that were read (of 24) are never added up over the ranks: ")
    assert (first.parameter_count, first.parameters_read, first.steps) == (1, 4, [4, 5, 6])
    assert verdict.evidence.parameter_total == 24
    assert "1 of the 4 parameters that were read (of 24): " in text(verdict)


@pytest.fixture(scope="module")
def sampling_server() -> Iterator[JobServer]:
    """A server whose jobs are read in full at their first two steps alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAILUREMAP_EVERY", "1000")
        patch.setenv("TESTS_FIRST_WINDOWS", "1")
        with JobServer() as server:
            yield server


# of the generator, which steps first when the job is read in part already, two steps are too few
TOO_SHORT = {"gan", "gan-generator-alone"}
# every other row: what reads in part is the same for all of them
CASES_IN_PART = [case for case in CASES if case.name in representatives() - TOO_SHORT][::2]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES_IN_PART, ids=lambda case: case.name)
def test_the_verdict_is_the_same_on_jobs_that_are_read_in_part(sampling_server: JobServer, case: Case) -> None:
    got = audit_case(sampling_server, case)

    assert got.as_expected, f"{got.outcome} {got.slugs}: {got.sentence}; expected {case.outcomes} {case.slugs}"
