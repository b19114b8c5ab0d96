"""fully_shard and DTensor parameters: what each rank writes adds up to the truth, and nothing is raised or sent."""

from __future__ import annotations

import numpy as np
import pytest

from audit.capture.sharded_job import END, START, is_mean, last_step, watch_ranks
from audit.capture.watched import run
from failuremap.audit.sentences.words import NO_GRADIENT
from failuremap.audit.trace import of_runs
from failuremap.audit.verdict import diagnose

pytestmark = pytest.mark.torch


def test_shards_of_updates_add_up_to_the_mean_of_the_gradients(job_server, tmp_path):
    seen = watch_ranks(
        job_server, tmp_path, "sharded(); step = sgd()\nfor _ in range(2): step.zero_grad(); back(); step.step()"
    )

    step = last_step(tmp_path)
    assert [one.errors for one in seen] == [[], []]
    assert sorted(seen[0].names.values()) == ["down.bias", "down.weight", "embed.weight", "up.bias", "up.weight"]
    assert len(step.keys) == 2
    assert is_mean(step)
    assert np.abs(step.sharding.updates_RL - step.updates_RL).max() > 0


def test_a_layout_says_which_part_each_rank_has(job_server, tmp_path):
    seen = watch_ranks(job_server, tmp_path, "sharded(); step = sgd(); back(); step.step()")

    told = [
        {one.names[r.fields["id"]]: r.fields for r in one.of("layout") if r.fields["of"] == "update"} for one in seen
    ]
    assert [fields["embed.weight"]["span"] for fields in told] == [[[0, 150], [0, 8]], [[150, 300], [0, 8]]]
    assert [fields["down.bias"]["held"] for fields in told] == [[0, 1, 2], [3, 4]]
    assert {of_runs(fields["parts"]) for one in told for fields in one.values()} == {(0, 1)}
    assert {r.fields["of"] for r in seen[0].of("layout")} == {"update", "weights"}


def test_a_layout_is_told_once(job_server, tmp_path):
    (seen, _) = watch_ranks(job_server, tmp_path, "sharded(); step = sgd()\nfor _ in range(3): back(); step.step()")

    told = [(r.fields["id"], r.fields["of"]) for r in seen.of("layout")]
    assert len(told) == len(set(told)) == 10


@pytest.mark.parametrize(
    ("how", "tolerance"),
    [
        ("reshard_after_forward=False", 1e-5),
        ("mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)", 1e-5),
        ("shard_placement_fn=lambda p: Shard(p.dim() - 1) if p.shape[-1] % 2 == 0 else Shard(0)", 1e-5),
    ],
    ids=["kept", "bfloat16", "columns"],
)
def test_forms_of_sharding_add_up(how, tolerance, job_server, tmp_path):
    watch_ranks(job_server, tmp_path, f"sharded({how}); step = sgd(); back(); step.step()")

    assert is_mean(last_step(tmp_path), tolerance)


def test_the_type_of_a_gradient_is_that_of_the_gathered_parameter(job_server, tmp_path):
    policy = "MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)"
    (seen, _) = watch_ranks(job_server, tmp_path, f"sharded(mp_policy={policy}); step = sgd(); back(); step.step()")

    assert {record.fields["dtype"] for record in seen.of("parameter")} == {"bfloat16"}


def test_replicas_of_shards_add_up_by_replica(job_server, tmp_path):
    mesh = 'init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))'
    seen = watch_ranks(job_server, tmp_path, f"sharded(mesh={mesh}); step = sgd(); back(); step.step()", nproc=4)

    assert [{of_runs(r.fields["parts"]) for r in one.of("layout")} for one in seen] == [
        {(0, 1)}, {(0, 1)}, {(2, 3)}, {(2, 3)},
    ]  # fmt: skip
    assert is_mean(last_step(tmp_path))


def test_gradients_that_wait_unreduced_are_kept(job_server, tmp_path):
    (seen, _) = watch_ranks(
        job_server,
        tmp_path,
        "sharded(); step = sgd(); step.zero_grad(); model.set_requires_gradient_sync(False); back(); step.zero_grad()\n"
        "model.set_requires_gradient_sync(True); back(); step.step(); step.zero_grad(); back()",
    )

    first, second, third = [record.fields["kept"] for record in seen.of("backward")]
    assert (first, third) == ([], [])
    assert {seen.names[id] for id in second} >= {"up.weight", "up.bias", "down.weight", "down.bias"}
    step = last_step(tmp_path)
    np.testing.assert_allclose(step.updates_RL[0], step.contributions_KL.sum(axis=0) / 2, rtol=1e-4, atol=1e-7)


def test_gradients_that_were_reduced_and_zeroed_are_not_kept(job_server, tmp_path):
    (seen, _) = watch_ranks(
        job_server, tmp_path, "sharded(); step = sgd(); back(); step.zero_grad(); back(); step.step()"
    )

    assert [record.fields["kept"] for record in seen.of("backward")] == [[], []]


def test_the_weights_are_compared_shard_by_shard(job_server, tmp_path):
    watch_ranks(job_server, tmp_path, "sharded(); step = sgd(); back(); step.step()")

    assert last_step(tmp_path).weights_equal is True


def test_the_norm_of_clipping_is_noted_and_the_length_of_the_update_is_its_limit(job_server, tmp_path):
    (seen, _) = watch_ranks(
        job_server,
        tmp_path,
        "sharded(); step = sgd(); back(); nn.utils.clip_grad_norm_(model.parameters(), 0.01); step.step()",
    )

    (clip,) = seen.of("clip")
    assert clip.fields["norm"] > 0.01
    assert last_step(tmp_path).length == pytest.approx(0.01, rel=1e-3)


def test_a_parameter_smaller_than_the_number_of_ranks_adds_up(job_server, tmp_path):
    watch_ranks(
        job_server,
        tmp_path,
        "model.gain = nn.Parameter(torch.ones(2)); forward = model.forward\n"
        "model.forward = lambda x: forward(x) * model.gain.sum(); sharded(); step = sgd(); back(); step.step()",
        nproc=4,
    )

    step = last_step(tmp_path)
    assert "gain" in {parameter.name for parameter in step.parameters}
    assert is_mean(step)


def test_tensor_parallel_ranks_give_one_contribution(job_server, tmp_path):
    plan = '{"up": ColwiseParallel(), "down": RowwiseParallel()}'
    seen = watch_ranks(
        job_server,
        tmp_path,
        f'mesh = init_device_mesh("cpu", (2,)); parallelize_module(model, mesh, {plan}); step = sgd()\n'
        "generator.manual_seed(0); back(); step.step()",
    )

    step = last_step(tmp_path)
    spread = {seen[0].names[r.fields["id"]] for r in seen[0].of("layout") if len(of_runs(r.fields["parts"])) == 2}
    assert spread == {"up.weight", "up.bias", "down.weight"}
    assert step.keys == [(0, 0)]
    np.testing.assert_allclose(step.updates_RL[0], step.contributions_KL[0], rtol=1e-6)


def test_sharded_and_tensor_parallel_together_add_up(job_server, tmp_path):
    plan = '{"up": ColwiseParallel(), "down": RowwiseParallel()}'
    watch_ranks(
        job_server,
        tmp_path,
        'mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "tensor"))\n'
        f'parallelize_module(model, mesh["tensor"], {plan}); sharded(mesh=mesh["replica"]); step = sgd()\n'
        "generator.manual_seed(rank // 2); back(); step.step()",
        nproc=4,
    )

    step = last_step(tmp_path)
    assert step.keys == [(0, 0), (2, 0)]
    assert is_mean(step)


COUNTED = """
from collections import Counter
from torch.utils._python_dispatch import TorchDispatchMode
class Collectives(TorchDispatchMode):
    seen = Counter()
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(kind.__name__ == "DTensor" for kind in types):
            return NotImplemented  # what it does inside is counted
        self.seen.update([str(function)] if "c10d" in str(function) else [])
        return function(*args, **(kwargs or {}))
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "tensor"))
parallelize_module(model, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
sharded(mesh=mesh["replica"]); step = sgd()
with Collectives() as collectives:
    for _ in range(3):
        step.zero_grad(); back(); nn.utils.clip_grad_norm_(model.embed.parameters(), 0.1); step.step()
if rank == 0:
    print(sorted(collectives.seen.items()))
"""


def test_the_audit_sends_nothing(job_server, tmp_path):
    audited = run(job_server, tmp_path, START + COUNTED + END, nproc=4)
    plain = run(job_server, tmp_path, START + COUNTED + END, nproc=4, audited=False)

    assert audited.ok and plain.ok, audited.output[-3000:]
    assert audited.output == plain.output
    assert "reduce_scatter" in plain.output and "all_reduce" in plain.output


def test_another_version_of_torch_is_not_measured_and_raises_nothing(job_server, tmp_path):
    source = "from torch.distributed.fsdp._fully_shard import _fsdp_param as module\n"
    source += "del_me = module.FSDPParam.init_unsharded_param.__wrapped__\n"
    source += "module.FSDPParam.init_unsharded_param = del_me\n"
    watch_ranks(job_server, tmp_path, source + "sharded(); step = sgd(); back(); step.step()")

    verdict = diagnose(tmp_path / "trace")
    assert verdict.outcome == "not measured"
    assert f"{NO_GRADIENT} (1 of 1 steps)" in verdict.reasons


def test_a_failure_of_the_watching_is_noted_and_raises_nothing(job_server, tmp_path):
    source = "from failuremap.audit import capture\n"
    source += "capture.current.modules.stand_for = lambda *_: 1 / 0\n"
    seen = watch_ranks(job_server, tmp_path, source + "sharded(); step = sgd(); back(); step.step()")

    assert seen[0].errors[0] == "on_gathered: ZeroDivisionError: division by zero"
    assert diagnose(tmp_path / "trace").outcome == "not measured"


def test_a_loss_on_targets_that_are_spread_is_not_counted(job_server, tmp_path):
    (seen, _) = watch_ranks(
        job_server,
        tmp_path,
        'mesh = init_device_mesh("cpu", (2,))\n'
        "weight = nn.Parameter(distribute_tensor(torch.ones(8, 5), mesh, [Replicate()]))\n"
        "x = distribute_tensor(torch.randn(6, 8), mesh, [Shard(0)])\n"
        "y = distribute_tensor(torch.randint(5, (6,)), mesh, [Shard(0)])\n"
        "step = torch.optim.SGD([weight], lr=0.1)\n"
        "F.cross_entropy(x @ weight, y, reduction='sum').backward(); step.step()",
    )

    assert seen.losses == []
    assert seen.errors == ["cross_entropy: TypeError: the loss's target is spread over ranks: (Shard(dim=0),)"]
    assert diagnose(tmp_path / "trace").outcome == "not measured"


def test_a_layout_that_changes_is_noted_and_the_job_is_not_measured(job_server, tmp_path):
    seen = watch_ranks(
        job_server,
        tmp_path,
        'mesh = init_device_mesh("cpu", (2,))\n'
        "weight = nn.Parameter(distribute_tensor(torch.ones(8, 5), mesh, [Shard(0)]))\n"
        "step = torch.optim.SGD([weight], lr=0.1)\n"
        "for form in (Shard(0), Replicate()):\n"
        "    weight.grad = distribute_tensor(torch.ones(8, 5), mesh, [form]); step.step()\n",
    )

    (error,) = seen[0].errors
    assert error.endswith("is distributed over ranks in another way than before")
    assert diagnose(tmp_path / "trace").outcome != "right"
