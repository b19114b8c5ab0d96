"""Scalars for training logs: what a step weighs, and the loggers that people use, each read back."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from failuremap.audit.faults import Judged
from failuremap.audit.model import Cell
from failuremap.audit.scalars import RATIO, REPLICAS, TOTAL, scalars, to_tensorboard, to_wandb
from failuremap.errors import InvalidArgument

LOGGERS = Path(__file__).parents[2] / ".venv-frameworks" / "loggers"


def step(weights, counts, **known):
    cells = [
        Cell(rank=rank, micro_batch=0, count=count, effective_weight=weight)
        for rank, (weight, count) in enumerate(zip(weights, counts, strict=True))
    ]
    return Judged(1, cells=cells, **known)


def test_a_right_step_has_ratio_one_and_total_one():
    assert scalars(step([0.125, 0.125], [3, 5], weights_equal=True)) == {RATIO: 1.0, TOTAL: 1.0, REPLICAS: 1.0}


def test_the_ratio_is_that_of_the_heaviest_unit_to_the_lightest():
    assert scalars(step([0.5, 0.125], [1, 4])) == {RATIO: 4.0, TOTAL: 1.0}


def test_a_contribution_without_units_has_no_weight():
    assert scalars(step([0.5, None], [2, 0])) == {RATIO: 1.0, TOTAL: 1.0}


def test_a_unit_that_weighs_nothing_makes_the_ratio_infinite():
    assert scalars(step([0.5, 0.0], [2, 2]))[RATIO] == math.inf


def test_what_is_not_known_is_left_out():
    assert scalars(step([0.5, None], [2, 2])) == {}
    assert scalars(Judged(1, weights_equal=False)) == {REPLICAS: 0.0}


@pytest.mark.parametrize(("adapter", "missing"), [(to_tensorboard, "add_scalar"), (to_wandb, "define_metric")])
def test_what_is_no_logger_is_refused(adapter, missing):
    with pytest.raises(InvalidArgument, match=f"=3 has no {missing}"):
        adapter(3)


READ_BACK = {
    "tensorboard": """
        from torch.utils.tensorboard import SummaryWriter
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        writer = SummaryWriter(folder)
        fill(to_tensorboard(writer))
        writer.close()
        events = EventAccumulator(folder)
        events.Reload()
        found = [(event.step, event.value) for event in events.Scalars(RATIO)]
    """,
    "wandb": """
        import wandb
        run = wandb.init(project="audit", dir=folder, mode="offline")
        for _ in range(5):
            run.log({"loss": 1.0})  # its own counter is ahead of the steps that are judged
        fill(to_wandb(run))
        last = dict(run.summary)  # wandb itself reads its offline files no more; this is what it kept of the run
        found = [(1, 2.5), (last["failuremap/step"], last[RATIO])]
        run.finish()
        assert list(pathlib.Path(folder).rglob("*.wandb"))
    """,
    "mlflow": """
        import mlflow
        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        client = mlflow.MlflowClient()
        run = client.create_run(client.create_experiment("audit"))
        fill(to_mlflow(run.info.run_id))
        found = [(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, RATIO)]
    """,
}


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.frameworks
@pytest.mark.parametrize("logger", READ_BACK)
def test_a_logger_gives_back_what_it_was_given(tmp_path, logger):
    if not (LOGGERS / ".installed").exists():
        if "all" in os.environ.get("FAILUREMAP_REQUIRE", "").split(","):
            pytest.fail("the loggers are not in .venv-frameworks, and FAILUREMAP_REQUIRE demands it: make frameworks")
        pytest.skip("the loggers are not in .venv-frameworks; install them: make frameworks")
    start = f"""
        import json, pathlib, sys
        from failuremap.audit.scalars import RATIO, to_mlflow, to_tensorboard, to_wandb
        folder = {str(tmp_path)!r}
        def fill(log):
            log(RATIO, 2.5, 1)
            log(RATIO, 1.0, 2)
    """
    source = textwrap.dedent(start) + textwrap.dedent(READ_BACK[logger]) + "\nprint(json.dumps(found))"
    environment = {**os.environ, "PYTHONPATH": str(LOGGERS), "WANDB_SILENT": "true"}

    result = subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=300
    )

    assert result.returncode == 0, result.stderr[-2000:]
    assert json.loads(result.stdout.splitlines()[-1]) == [[1, 2.5], [2, 1.0]]
