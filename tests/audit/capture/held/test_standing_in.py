"""What an optimizer holds in place of parameters is read where it lies, and told as their updates."""

from __future__ import annotations

import numpy as np
import pytest

from audit.capture.sharded_job import is_mean, last_step, watch_ranks
from failuremap.audit.verdict import diagnose

pytestmark = pytest.mark.torch

# a ZeRO-1 by hand: each rank steps on its part of all parameters, which lie one after another
PARTITIONS = """
from failuremap.audit import capture
from failuremap.audit.capture.held.layout import Layout
recorder, count = capture.current, dist.get_world_size()
class Zero:
    def __init__(self, parameters, shift=0):
        self.parameters, everybody = parameters, tuple(range(count))
        flat = self.joined([p.detach() for p in parameters])
        size = len(flat) // count
        self.part = nn.Parameter(flat[rank * size :][:size].clone())
        at = -rank * size
        for p in parameters:
            first, stop = max(at, 0), min(at + p.numel(), size)
            held = max(stop - first, 0)
            watched = recorder.watch(p)
            run = (first - at, stop - at) if held else (0, 0)
            watched.piece = Layout(everybody, everybody, tuple(p.shape), (), run=run)
            recorder.stand_ins.add(watched, self.part, (first + shift) if held else 0, held, whole_weights=True)
            at += p.numel()
    def joined(self, tensors):
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        return F.pad(flat, (0, -len(flat) % count + count))
    def give(self):
        flat = self.joined([p.grad for p in self.parameters])
        dist.all_reduce(flat)
        self.part.grad = flat.div_(count)[rank * len(self.part) :][: len(self.part)].clone()
    def take(self):
        flat = torch.empty(count * len(self.part))
        dist.all_gather_into_tensor(flat, self.part.detach())
        for p, new in zip(self.parameters, flat.split([p.numel() for p in self.parameters] + [len(flat) - total])):
            p.data.copy_(new.view(p.shape))
def train(zeros, optimizers):
    global total
    for _ in range(3):
        model.zero_grad(); back()
        for zero, step in zip(zeros, optimizers):
            zero.give(); step(); total = sum(p.numel() for p in zero.parameters); zero.take()
"""
ONE = "zero = Zero(list(model.parameters())%s); step = torch.optim.SGD([zero.part], lr=0.1)\n"


@pytest.mark.parametrize("nproc", [2, 3])
def test_partitions_add_up_to_the_mean_of_the_gradients(nproc, job_server, tmp_path):
    seen = watch_ranks(job_server, tmp_path, PARTITIONS + ONE % "" + "train([zero], [step.step])", nproc)

    step = last_step(tmp_path)
    assert [one.errors for one in seen] == [[]] * nproc
    assert {p.name for p in step.parameters} == {"embed.weight", "up.weight", "up.bias", "down.weight", "down.bias"}
    assert is_mean(step) and step.weights_equal
    assert diagnose(tmp_path / "trace").outcome == "right"


def test_one_optimizer_that_is_given_one_partition_after_the_other_makes_one_step(job_server, tmp_path):
    source = """
zeros = [Zero([model.embed.weight]), Zero([*model.up.parameters(), *model.down.parameters()])]
optimizer = torch.optim.SGD([{"params": [zero.part]} for zero in zeros], lr=0.1)
both = optimizer.param_groups
def step_on(group):
    def step():
        optimizer.param_groups = [group]; optimizer.step(); optimizer.param_groups = both
    return step
train(zeros, [step_on(group) for group in both])
"""
    (seen, _) = watch_ranks(job_server, tmp_path, PARTITIONS + source)

    assert [(r.fields["optimizer"], r.fields["count"]) for r in seen.of("step")] == [
        (n, c) for c in range(3) for n in (0, 1)
    ]
    assert len(last_step(tmp_path).parameters) == 5
    verdict = diagnose(tmp_path / "trace")
    assert (verdict.outcome, verdict.evidence.step_count) == ("right", 3)


def test_negative_control_a_partition_that_begins_elsewhere_than_told_is_not_right(job_server, tmp_path):
    watch_ranks(job_server, tmp_path, PARTITIONS + ONE % ", shift=1" + "train([zero], [step.step])")

    assert diagnose(tmp_path / "trace").outcome != "right"


def test_an_optimizer_that_is_left_unread_is_not_measured(job_server, tmp_path):
    source = "recorder.stand_ins.leave_unread(step, 'NewOptimizer with offload'); train([zero], [step.step])"
    watch_ranks(job_server, tmp_path, PARTITIONS + ONE % "" + source)

    verdict = diagnose(tmp_path / "trace")
    assert verdict.outcome == "not measured"
    assert "parameters or gradients of type NewOptimizer with offload are not watched" in " ".join(verdict.reasons)


def test_what_is_announced_before_a_step_stands_before_it(job_server, tmp_path):
    source = """
clip = {"kind": "clip", "function": "own", "norm": 1.0, "limit": 2.0}
recorder.stand_ins.before_steps(step, lambda: recorder.write(clip)); train([zero], [step.step])
"""
    (seen, _) = watch_ranks(job_server, tmp_path, PARTITIONS + ONE % "" + source)

    kinds = [record.kind for record in seen.records if record.kind in ("clip", "step")]
    assert kinds == ["clip", "step"] * 3


def test_the_rate_is_that_of_the_tensor_that_is_held(job_server, tmp_path):
    (seen, _) = watch_ranks(job_server, tmp_path, PARTITIONS + ONE % "" + "train([zero], [step.step])")

    assert seen.of("step")[0].fields["rates"] == [[0.1, 5]]


def test_tensors_hold_alike_up_to_their_types_and_not_up_to_a_shift():
    import torch

    from failuremap.audit.capture.held.standing_in import hold_alike

    one = torch.from_numpy(np.random.default_rng(0).normal(size=300))

    assert hold_alike(one.bfloat16(), one.bfloat16().float())
    assert hold_alike(one[:0], one[:0])
    assert not hold_alike(one[:-1], one[1:])
    assert not hold_alike(one, one[1:])
