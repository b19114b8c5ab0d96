"""Audit: what a real training job does with its gradients. capture -> trace -> fit -> weigh -> verdict -> report."""

from __future__ import annotations

from failuremap.audit.verdict import diagnose as diagnose

__all__ = ["diagnose"]
