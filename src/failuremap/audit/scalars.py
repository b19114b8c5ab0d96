"""What a step weighs, as numbers for a training log: one small protocol, and adapters to the loggers that people use.

A log is anything that can be called as `log(name, value, step)`. TensorBoard, W&B and MLflow are never imported here
unless their adapter is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from failuremap.errors import InvalidArgument

if TYPE_CHECKING:
    from failuremap.audit.faults import Judged

Log = Callable[[str, float, int], object]
"""Takes the name of a scalar, its value, and the optimizer step (from 1) that it is of."""

RATIO = "failuremap/heaviest_over_lightest"
TOTAL = "failuremap/total_weight"
REPLICAS = "failuremap/replicas_equal"


def scalars(step: Judged) -> dict[str, float]:
    """The scalars of one judged step, as far as they are known.

    The weight of the heaviest unit over that of the lightest (1 is right), the sum of all units' weights (a mean
    has 1), and whether all ranks began the step from the same weights (1 or 0).
    """
    weighed = [(cell.effective_weight, cell.count) for cell in step.cells if cell.count and cell.count > 0]
    weights = [(abs(weight), count) for weight, count in weighed if weight is not None and math.isfinite(weight)]
    found: dict[str, float] = {}
    if weights and len(weights) == len(weighed):
        heaviest, lightest = max(weights)[0], min(weights)[0]
        found[RATIO] = heaviest / lightest if lightest > 0 else math.inf
        found[TOTAL] = sum(weight * count for weight, count in weights)
    if step.weights_equal is not None:
        found[REPLICAS] = float(step.weights_equal)
    return found


def to_tensorboard(writer: Any) -> Log:
    """A log that writes to a `SummaryWriter`, of torch.utils.tensorboard or of tensorboardX.

    Raises:
        InvalidArgument: It has no `add_scalar`.
    """
    log: Log | None = getattr(writer, "add_scalar", None)
    if log is None:
        raise InvalidArgument(f"writer={writer!r} has no add_scalar; give the SummaryWriter itself.")
    return log


def to_wandb(run: Any) -> Log:
    """A log that writes to a run of W&B, what `wandb.init()` returns, on an axis of its own.

    W&B drops values of steps that are behind its own counter, and a step is judged after it is made.

    Raises:
        InvalidArgument: It has no `define_metric`.
    """
    if not callable(getattr(run, "define_metric", None)):
        raise InvalidArgument(f"run={run!r} has no define_metric; give what wandb.init() returned.")
    axis = "failuremap/step"
    run.define_metric(axis, hidden=True)
    run.define_metric("failuremap/*", step_metric=axis)
    return lambda name, value, step: run.log({name: value, axis: step})


def to_mlflow(run_id: str, client: Any = None) -> Log:
    """A log that writes to a run of MLflow.

    Args:
        run_id: As in `mlflow.active_run().info.run_id`.
        client: An MlflowClient; None: one for the tracking URI that is set.
    """
    if client is None:
        from mlflow import MlflowClient  # type: ignore[import-not-found, unused-ignore]

        client = MlflowClient()
    return lambda name, value, step: client.log_metric(run_id, name, value, step=step)
