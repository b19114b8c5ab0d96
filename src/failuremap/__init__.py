"""failuremap: what a distributed training job really does with its gradients.

    failuremap audit --nproc 2 -- train.py      what one token weighs in the update, and why

Names for scripts and notebooks:

* `aggregate` combines gradients by a stated rule; `exact_sum` adds arrays up, `Accumulator` one after another, and both
  give the nearest to the exact sum in whatever order; `check_backend` holds a backend of your own to the same laws;
* `attach` makes a PyTorch model's gradients follow one, over ranks and micro-batches; `clip_grad_norm_` clips them;
* `watch` audits a job that you start yourself; `failuremap diagnose` judges what it wrote;
* `count`, `unit_losses` and `batch` tell a running audit what it cannot see by itself, and do nothing otherwise.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# At once: the function shares its name with its package, so a later import of the package would hide it.
from failuremap.aggregate import aggregate
from failuremap.errors import (
    FailuremapError,
    InvalidArgument,
    JobStopped,
    LawBroken,
    MissingDependency,
    RecordError,
    StepVoid,
    TraceError,
)

if TYPE_CHECKING:
    from failuremap.aggregate.accumulator import Accumulator
    from failuremap.aggregate.conformance import check_backend
    from failuremap.aggregate.exact import exact_sum
    from failuremap.aggregate.torch.attach import attach
    from failuremap.aggregate.torch.clip import clip_grad_norm_
    from failuremap.audit.capture.loss.marks import batch, count, unit_losses
    from failuremap.audit.capture.watch import watch

__version__ = "0.1.0"

__all__ = [
    "Accumulator",
    "FailuremapError",
    "InvalidArgument",
    "JobStopped",
    "LawBroken",
    "MissingDependency",
    "RecordError",
    "StepVoid",
    "TraceError",
    "__version__",
    "aggregate",
    "attach",
    "batch",
    "check_backend",
    "clip_grad_norm_",
    "count",
    "exact_sum",
    "unit_losses",
    "watch",
]

# Resolved on first use: a bare import brings in no part of the audit, and no framework.
_HOMES = {
    "Accumulator": "failuremap.aggregate.accumulator",
    "attach": "failuremap.aggregate.torch.attach",
    "batch": "failuremap.audit.capture.loss.marks",
    "check_backend": "failuremap.aggregate.conformance",
    "clip_grad_norm_": "failuremap.aggregate.torch.clip",
    "count": "failuremap.audit.capture.loss.marks",
    "exact_sum": "failuremap.aggregate.exact",
    "unit_losses": "failuremap.audit.capture.loss.marks",
    "watch": "failuremap.audit.capture.watch",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its home when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'failuremap' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
