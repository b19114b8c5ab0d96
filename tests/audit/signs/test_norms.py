"""The norm that a job clips by, beside the norm of the update, and beside those of other ranks."""

from __future__ import annotations

from typing import Any

import pytest

from audit.calling import call, with_calls
from audit.capture.watched import run
from audit.traces import HandJob, Records, of_kind
from failuremap.audit import diagnose
from failuremap.audit.model import Verdict

LIMIT = 0.25
SQUARES = {"calls": 1, "elements": 1, "other_elements": 1}


def names(verdict: Verdict) -> list[str]:
    """The mechanisms of all findings."""
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})


def clipped(folder: Any, ratio: float, *calls: dict[str, Any], counts: Any = ((300,), (300,)), **how: Any) -> Verdict:
    """The verdict on a right job that clips to a quarter, by a norm that is so many times the update's own.

    Args:
        folder: Where its traces go.
        ratio: A number.
        calls: What every rank calls before its step.
        counts: Units by rank and micro-batch.
        how: `before`, the norm itself where the clip does not bite; `divided`, what divides the update after the clip;
            `norms`, what each rank clips by; `scale`, the factor of a GradScaler that the gradients still hold.
    """
    norms = how.get("norms", [3.0] * len(counts))
    divided, bites = how.get("divided", 1.0), "before" not in how
    own = LIMIT if bites else how["before"]

    def edit(rank: int, records: Records) -> Records:
        for place in reversed(of_kind(records, "step")):
            fields, numbers = records[place]
            length = own / ratio / divided if bites else own
            records[place] = ({**fields, "norm": length}, numbers)
            norm = norms[rank] if bites else own * ratio
            left = {"scale": how["scale"]} if "scale" in how else {}
            clip = {"kind": "clip", "function": "clip_grads_with_norm_", "norm": norm, "limit": LIMIT, **left}
            records.insert(place, (clip, None))
        return records

    factor = LIMIT / (3.0 + 1e-6) if bites else 1.0
    update = lambda window: window.combined(factor / window.counts_RM.size / divided)  # noqa: E731
    job = _Edited(counts, update, edit=edit)
    return diagnose(with_calls(job, folder, lambda *_: calls))


class _Edited(HandJob):
    """A job whose records are edited before anything else is."""

    def __init__(self, counts: Any, update: Any, edit: Any) -> None:
        super().__init__(counts, update)
        self._edit = edit

    def records(self) -> list[Records]:
        return [self._edit(rank, records) for rank, records in enumerate(super().records())]


def test_a_norm_of_two_copies_is_named(tmp_path):
    verdict = clipped(tmp_path, 2**0.5, call((0, 1), **SQUARES))

    assert (verdict.outcome, names(verdict)) == ("wrong", ["norm-counts-copies"])
    assert verdict.sentence == (
        "The norm that the gradient is clipped by is 1.414 times its own: the squares of 2 copies are added up, and "
        "the update is clipped to 1/1.414 of the limit."
    )


FOUR = ((300,),) * 4


def test_copies_on_a_group_of_ranks_are_named_too(tmp_path):
    verdict = clipped(tmp_path, 2**0.5, call((0, 1), **SQUARES), counts=FOUR)

    assert names(verdict) == ["norm-counts-copies"]


@pytest.mark.parametrize(
    ("ratio", "entries"),
    [
        (1.0, [call((0, 1), **SQUARES)]),
        (1.3, [call((0, 1), **SQUARES)]),
        (2**0.5, []),
        (2**0.5, [call((0, 1), own=False, **SQUARES)]),
        (2**0.5, [call((0, 1), function="broadcast", **SQUARES)]),
        (2**0.5, [call((0, 1), when="before", **SQUARES)]),
        (2**0.5, [call((0,), **SQUARES)]),
    ],
    ids=["its own", "another", "nothing is added up", "by the framework", "no sum", "before backward", "alone"],
)
def test_negative_control_other_norms_are_right(ratio, entries, tmp_path):
    assert clipped(tmp_path, ratio, *entries).outcome == "right"


def test_negative_control_ranks_that_clip_by_norms_of_their_own_are_not_copies(tmp_path):
    assert "norm-counts-copies" not in names(clipped(tmp_path, 2**0.5, call((0, 1), **SQUARES), norms=[3.0, 3.1]))


def test_negative_control_a_clip_that_does_not_bite_shows_no_norm(tmp_path):
    assert clipped(tmp_path, 2**0.5, call((0, 1), **SQUARES), before=0.1).outcome == "right"


def test_negative_control_a_window_that_is_divided_after_the_clip_is_not_copies(tmp_path):
    entry = call((0, 1, 2, 3), **SQUARES)
    counts = ((300, 300),) * 4

    assert names(clipped(tmp_path, 2.0, entry, counts=counts)) == []


def test_negative_control_a_factor_of_the_scripts_own_is_not_copies(tmp_path):
    assert clipped(tmp_path, 1.0, call((0, 1), **SQUARES), divided=2**0.5).outcome == "right"


# ---- gradients that hold the factor of a GradScaler


def test_a_clip_before_the_scaler_divides_is_wrong(tmp_path):
    verdict = clipped(tmp_path, 1024.0, scale=1024.0)

    assert (verdict.outcome, names(verdict)) == ("wrong", [])
    assert verdict.sentence == (
        "The gradient is clipped while it still holds the factor 1024 of the GradScaler: the update is clipped to "
        "1/1024 of the limit. scaler.unscale_(optimizer) has to come before the clip."
    )


@pytest.mark.parametrize(
    ("ratio", "how"),
    [(1.0, {"scale": 1024.0}), (1024.0, {}), (512.0, {"scale": 1024.0}), (1024.0, {"scale": 1024.0, "before": 0.1})],
    ids=["the norm is the update's own", "no scaler", "another factor", "the clip does not bite"],
)
def test_negative_control_other_clips_beside_a_scaler_are_right(ratio, how, tmp_path):
    assert clipped(tmp_path, ratio, **how).outcome == "right"


# ---- parameters that are dealt out to the ranks

DEALT_OUT = """
import torch.distributed as dist
from torch import nn
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 32))
owned = [p for i, p in enumerate(model.parameters()) if i % world_size == rank]
optimizer = torch.optim.SGD(owned, lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(3):
    tokens = torch.randint(32, (33,))
    model.zero_grad()
    F.cross_entropy(model(tokens[:-1]), tokens[1:]).backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world_size
    square = torch.nn.utils.get_total_norm([p.grad for p in owned]).square()
    if TOGETHER:
        dist.all_reduce(square)
    if FACTOR:
        for p in owned:
            p.grad *= FACTOR[rank]
    else:
        torch.nn.utils.clip_grads_with_norm_(owned, 0.1, square.sqrt())
    optimizer.step()
    for i, p in enumerate(model.parameters()):
        dist.broadcast(p.data, i % world_size)
dist.destroy_process_group()
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("how", "outcome", "named"),
    [
        ("TOGETHER, FACTOR = False, ()", "wrong", ["norm-misses-shards"]),
        ("TOGETHER, FACTOR = True, ()", "right", []),
        ("TOGETHER, FACTOR = False, (0.5, 0.25)", "wrong", []),
    ],
    ids=["own norms", "one norm", "factors that are no norms"],
)
def test_each_ranks_own_norm_over_its_own_parameters_is_named(how, outcome, named, job_server, tmp_path):
    result = run(job_server, tmp_path, f"{how}\n{DEALT_OUT}", nproc=2)
    assert result.ok, result.output[-3000:]
    verdict = diagnose(tmp_path / "trace")

    assert (verdict.outcome, names(verdict)) == (outcome, named)
