"""FullyShardedDataParallel: the flat gradient is taken apart, the pieces that ranks step on are put together."""

from __future__ import annotations

import numpy as np
import pytest

from audit.capture.sharded_job import is_mean, last_step, watch_ranks
from failuremap.audit.verdict import diagnose

pytestmark = pytest.mark.torch

WRAP = """
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
def flat(**how):
    return FullyShardedDataParallel(model, device_id=torch.device("cpu"), **{"use_orig_params": True, **how})
"""
STEP = "model = flat(%s); step = sgd()\nfor _ in range(2): step.zero_grad(); back(); step.step()"


def watched(job_server, folder, how="", nproc=2):
    return watch_ranks(job_server, folder, WRAP + STEP % how, nproc=nproc)


@pytest.mark.parametrize(
    ("how", "nproc"),
    [
        ("", 2),
        ("", 4),
        ("use_orig_params=False", 2),
        ("use_orig_params=False", 3),
        ("sharding_strategy=ShardingStrategy.SHARD_GRAD_OP", 2),
        ("sharding_strategy=ShardingStrategy.NO_SHARD", 2),
        ("mixed_precision=MixedPrecision(param_dtype=torch.bfloat16)", 2),
    ],
)
def test_the_pieces_add_up_to_the_mean_of_the_gradients(how, nproc, job_server, tmp_path):
    seen = watched(job_server, tmp_path, how, nproc)

    step = last_step(tmp_path)
    assert [one.errors for one in seen] == [[]] * nproc
    assert (len(step.keys), step.weights_equal) == (nproc, True)
    assert is_mean(step, 2e-2 if "bfloat16" in how else 1e-5)


def test_original_parameters_keep_their_names_and_shapes(job_server, tmp_path):
    (seen, _) = watched(job_server, tmp_path)

    assert {record.fields["name"]: record.fields["shape"] for record in seen.of("parameter")} == {
        "embed.weight": [300, 8],
        "up.weight": [20, 8],
        "up.bias": [20],
        "down.weight": [5, 20],
        "down.bias": [5],
    }


def test_a_parameter_on_one_rank_alone_is_whole(job_server, tmp_path):
    seen = watched(job_server, tmp_path)

    spans = [
        {one.names[r.fields["id"]]: r.fields["span"] for r in one.of("layout") if r.fields["of"] == "update"}
        for one in seen
    ]
    assert (spans[0]["down.bias"], spans[1]["down.bias"]) == ([[0, 0]], [[0, 5]])
    assert spans[0]["embed.weight"][0][1] == spans[1]["embed.weight"][0][0]
    assert diagnose(tmp_path / "trace").outcome == "right"


def test_the_type_is_that_of_the_pass(job_server, tmp_path):
    (seen, _) = watched(job_server, tmp_path, "mixed_precision=MixedPrecision(param_dtype=torch.bfloat16)")

    assert {record.fields["dtype"] for record in seen.of("parameter")} == {"bfloat16"}


def test_gradients_that_wait_unreduced_are_kept(job_server, tmp_path):
    source = "model = flat(); step = sgd()\nwith model.no_sync(): back()\nback(); step.step()"
    (seen, _) = watch_ranks(job_server, tmp_path, WRAP + source)

    first, second = (record.fields["kept"] for record in seen.of("backward"))
    assert (first, len(second)) == ([], 5)
    step = last_step(tmp_path)
    np.testing.assert_allclose(step.updates_RL[0], step.contributions_KL.sum(axis=0) / 2, rtol=1e-4, atol=1e-7)


def test_a_parameter_that_no_rank_uses_is_missed_on_none(job_server, tmp_path):
    source = "model.unused = nn.Linear(3, 3); model = flat(); step = sgd(); back(); step.step()"
    watch_ranks(job_server, tmp_path, WRAP + source)

    assert diagnose(tmp_path / "trace").outcome == "right"


def test_a_flat_parameter_that_no_longer_shards_itself_is_not_measured(job_server, tmp_path):
    source = "from torch.distributed.fsdp import _flat_param\n"
    source += "_flat_param.FlatParamHandle.shard = _flat_param.FlatParamHandle.shard.__wrapped__\n"
    watch_ranks(job_server, tmp_path, source + WRAP + STEP % "")

    assert diagnose(tmp_path / "trace").outcome == "not measured"
