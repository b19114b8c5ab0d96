"""What ranks kept becomes whole weights, and one batch for each contribution."""

from __future__ import annotations

import pytest

from audit.capture.reference.keeping_by_hand import OBJECTIVE, keep, one_pass, refer, refusal

pytestmark = pytest.mark.torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def members(records):
    """The passes of each contribution."""
    return [record.fields["members"] for record in records if record.kind == "contribution"]


def test_each_pass_of_each_rank_is_a_contribution(torch, tmp_path):
    for rank in range(2):
        passes = [one_pass(torch, number, seed=10 * rank + number) for number in range(2)]
        keep(tmp_path, torch, rank=rank, world_size=2, passes=passes)

    assert members(refer(tmp_path)) == [[[0, 0]], [[0, 1]], [[1, 0]], [[1, 1]]]


def test_ranks_on_the_same_batches_make_one_contribution(torch, tmp_path):
    for rank in range(2):
        keep(tmp_path, torch, rank=rank, world_size=2, passes=[one_pass(torch, seed=0)])

    assert members(refer(tmp_path)) == [[[0, 0], [1, 0]]]


def test_ranks_that_share_one_batch_of_two_stay_apart(torch, tmp_path):
    for rank in range(2):
        passes = [one_pass(torch, 0, seed=0), one_pass(torch, 1, seed=1 + rank)]
        keep(tmp_path, torch, rank=rank, world_size=2, passes=passes)

    assert len(members(refer(tmp_path))) == 4


def test_gather_makes_one_batch_of_those_of_all_ranks(torch, tmp_path):
    for rank in range(2):
        keep(tmp_path, torch, rank=rank, world_size=2)
    gathered = OBJECTIVE.replace("(x,), (y,) = batch.args, batch.targets", "x, y = batch") + (
        "def gather(batches):\n"
        "    return torch.cat([b.args[0] for b in batches]), torch.cat([b.targets[0] for b in batches])\n"
    )

    (record,) = [record for record in refer(tmp_path, gathered) if record.kind == "contribution"]

    assert (record.fields["members"], record.fields["units"]) == ([[0, 0], [1, 0]], 10)


@pytest.mark.parametrize(
    "parts",
    [
        lambda whole: [{"held": [[0, 1], [0, 1, 2, 3]]}, {"held": [[2], [0, 1, 2, 3]]}],
        lambda whole: [{"held": [[0, 1, 2], [0, 2]]}, {"held": [[0, 1, 2], [1, 3]]}],
        lambda whole: [{"run": (0, 7)}, {"run": (7, 12)}],
    ],
)
def test_shards_are_laid_where_they_lie(parts, torch, tmp_path):
    from failuremap.audit.capture.reference.kept import read_windows

    whole = torch.arange(12.0).reshape(3, 4)
    for rank, where in enumerate(parts(whole)):
        if "run" in where:
            local = whole.flatten()[slice(*where["run"])]
        else:
            where["held"] = [torch.tensor(at) for at in where["held"]]
            local = whole[torch.meshgrid(*where["held"], indexing="ij")]
        held = {"local": local, "shape": (3, 4), "parts": (0, 1), "trained": True, **where}
        keep(tmp_path, torch, rank=rank, world_size=2, parameters={"weight": held})

    (window,) = read_windows(tmp_path, {})

    assert torch.equal(window.weights()["weight"], whole)


def test_parameters_that_the_script_splits_are_put_together_and_taken_apart(torch, tmp_path):
    from failuremap.audit.capture.reference.kept import read_windows

    whole = torch.arange(12.0).reshape(3, 4)
    for rank, part in enumerate(whole.split([3, 1], dim=1)):
        held = {"weight": {"local": part, "trained": True}}
        keep(tmp_path, torch, rank=rank, world_size=2, parameters=held, passes=[one_pass(torch)])

    (window,) = read_windows(tmp_path, {"weig*": 1})

    assert torch.equal(window.weights()["weight"], whole)
    assert [tuple(chunk.shape) for chunk in window.chunks("weight", whole).values()] == [(3, 3), (3, 1)]


def test_a_rank_that_kept_nothing_is_named(torch, tmp_path):
    keep(tmp_path, torch, world_size=3)

    assert refusal(tmp_path) == "rank 1 kept nothing of step 1"


def test_a_job_that_kept_nothing_is_told(torch, tmp_path):
    assert refusal(tmp_path) == "the job kept nothing to compare: no optimizer stepped behind a backward pass"


@pytest.mark.parametrize(("weights", "batches", "smaller"), [(5120, 3, "model of the same code"), (40, 300, "batch")])
def test_a_window_that_was_too_large_is_told_with_its_size(weights, batches, smaller, torch, tmp_path):
    keep(tmp_path, torch, too_large=(weights << 20, batches << 20))

    assert refusal(tmp_path) == (
        f"rank 0 would have to keep {weights} MiB of weights and {batches} MiB of batches of step 1; the limits are "
        f"4096 MiB and 256 MiB: audit a smaller {smaller}"
    )


def test_a_pass_without_a_batch_is_told(torch, tmp_path):
    keep(tmp_path, torch, passes=[{**one_pass(torch), "calls": [], "targets": []}])

    assert refusal(tmp_path) == (
        "of backward pass 0 on rank 0 no batch was seen: no module that no other holds was called before it. "
        "Say what the pass is made of, in the script:  failuremap.batch(inputs, targets)"
    )


def test_ranks_of_one_batch_with_different_numbers_of_passes_are_told(torch, tmp_path):
    for rank in range(2):
        passes = [one_pass(torch, number) for number in range(1 + rank)]
        keep(tmp_path, torch, rank=rank, world_size=2, passes=passes)
    gathered = OBJECTIVE + "def gather(batches):\n    return batches[0]\n"

    assert refusal(tmp_path, gathered) == "ranks 0, 1 made different numbers of backward passes"
