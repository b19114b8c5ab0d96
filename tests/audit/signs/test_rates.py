"""Ranks that step unequally far: by their learning rates, or because one leaves a step out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.capture.watched import run
from audit.judging import edited
from audit.traces import SHAPES, HandJob, Records, coordinates, of_kind
from failuremap.audit import diagnose
from failuremap.audit.model import Verdict

TWO = [[300], [300]]


def names(verdict: Verdict) -> list[str]:
    """The mechanisms of all findings."""
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})


def with_rates(folder: Any, rates: Any) -> Verdict:
    """The verdict on a right job whose steps tell these rates, given rank and step."""

    def edit(rank: int, records: Records) -> Records:
        for number, place in enumerate(of_kind(records, "step")):
            records[place][0]["rates"] = rates(rank, number)
        return records

    return diagnose(edited(HandJob(TWO), folder, edit))


def test_a_rate_that_falls_with_each_ranks_own_progress_is_named(tmp_path):
    verdict = with_rates(tmp_path, lambda rank, step: [[0.1 * (1 - step / (8 + 4 * rank)), 4]])

    assert (verdict.outcome, names(verdict)) == ("wrong", ["rank-local-step-decision"])
    assert verdict.sentence == "The ranks step with different learning rates: 0.0875 on rank 0, 0.0916667 on rank 1."
    assert verdict.findings[0].steps == [2, 3]


def test_one_group_with_rates_of_its_own_is_named_with_its_parameters(tmp_path):
    verdict = with_rates(tmp_path, lambda rank, _: [[0.1, 3], [0.1 + rank / 100, 1]])

    assert verdict.findings[0].parameters == ["head.weight"]
    assert verdict.sentence == (
        "The ranks step with different learning rates on 1 of 4 parameters (head.weight): "
        "0.1 on rank 0, 0.11 on rank 1."
    )


@pytest.mark.parametrize(
    "rates",
    [
        lambda rank, step: [[0.1 / (step + 1), 4]],
        lambda rank, step: [[0.1 * (1 + 1e-12 * rank), 4]],
        lambda rank, step: [[None, 4]] if rank else [[0.1, 4]],
        lambda rank, step: [[0.0, 4]],
        lambda rank, step: [],
    ],
    ids=["a schedule", "rounding", "one that is not known", "zero", "none told"],
)
def test_negative_control_equal_or_unknown_rates_are_right(rates, tmp_path):
    assert with_rates(tmp_path, rates).outcome == "right"


# ---- steps left out


def skipping(folder: Any, *, skip: bool = True, passes: bool = True, later: float = 1.0) -> Verdict:
    """The verdict on a job of five steps of which rank 1 leaves out the third, and goes on as if it had not been."""
    job = HandJob(TWO, steps=5)
    windows = job.windows()

    def edit(rank: int, records: Records) -> Records:
        if rank == 0 or not skip:
            return records
        missed = _sampled(0.1 * windows[2].updates_RL[rank], windows[2].starts)
        steps = of_kind(records, "step")
        size = windows[0].starts[-1]
        for place in steps[3:]:
            records[place][1][size:] += missed
            records[place][1][:size] *= later
        if not passes:
            del records[of_kind(records, "backward")[-1]]
        del records[steps[2]]
        return records

    return diagnose(edited(job, folder, edit))


def _sampled(update: Any, starts: list[int]) -> Any:
    """What a step's record holds of weights: the sampled elements of each parameter."""
    sizes = [coordinates(shape) for shape in SHAPES.values()]
    return np.concatenate([update[start : start + size] for start, size in zip(starts, sizes, strict=False)])


def test_a_step_that_one_rank_leaves_out_is_named(tmp_path):
    verdict = skipping(tmp_path)

    assert (verdict.outcome, names(verdict)) == ("wrong", ["rank-local-step-decision"])
    assert verdict.sentence.startswith(
        "Not all ranks take the same steps: rank 1 leaves out step 3. The ranks no longer hold the same weights from "
        "step 4 on: "
    )


def test_a_step_left_out_is_named_also_where_the_ranks_updates_differ_from_then_on(tmp_path):
    verdict = skipping(tmp_path, later=2.0)

    assert names(verdict) == ["rank-local-step-decision"]
    assert [finding.sentence.split(":")[0] for finding in verdict.findings] == [
        "Not all ranks take the same steps", "Each rank scales the same sum of gradients by a factor of its own",
    ]  # fmt: skip


def test_negative_control_the_same_job_without_a_step_left_out_is_right(tmp_path):
    assert skipping(tmp_path, skip=False).outcome == "right"


def test_negative_control_a_rank_with_fewer_passes_had_no_gradient_to_step_on(tmp_path):
    assert names(skipping(tmp_path, passes=False)) == []


SCALED = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()

def main():
    model = DistributedDataParallel(torch.nn.Linear(6, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=3e38, backoff_factor=2.0**-40)
    torch.manual_seed(1 + rank)
    for step in range(6):
        x, y = 1e3 * torch.randn(5, 6), torch.randint(4, (5,))
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        if LOCAL and step == 3 and rank == 1:
            continue
        scaler.step(optimizer)
        scaler.update()

main()
dist.destroy_process_group()
"""


@pytest.mark.torch
@pytest.mark.parametrize(("local", "outcome", "named"), [(0, "right", []), (1, "wrong", ["rank-local-step-decision"])])
def test_a_scaler_may_skip_on_all_ranks_together_and_not_on_one(local, outcome, named, job_server, tmp_path):
    result = run(job_server, tmp_path, f"LOCAL = {local}\n" + SCALED, nproc=2)
    assert result.ok, result.output[-3000:]
    verdict = diagnose(tmp_path / "trace")

    assert verdict.evidence.step_count == 5  # the first one of six is skipped
    assert (verdict.outcome, names(verdict)) == (outcome, named)
