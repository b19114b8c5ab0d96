"""Audit: what a real training job does with its gradients. capture -> trace -> fit -> weigh -> verdict -> report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from failuremap.audit.verdict import diagnose

__all__ = ["diagnose"]


def __getattr__(name: str) -> Any:
    # on demand: the training process imports failuremap.audit.capture, and must not carry the analysis with it
    if name == "diagnose":
        from failuremap.audit.verdict import diagnose

        return diagnose
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
