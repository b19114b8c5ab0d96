"""The right rules on PyTorch's own wrappers: gradients summed on the wire, weighed by counts, divided once."""

from __future__ import annotations

from failuremap.errors import MissingDependency

try:
    import torch  # noqa: F401
except ImportError as absent:
    raise MissingDependency("failuremap.attach", "PyTorch", "torch") from absent
