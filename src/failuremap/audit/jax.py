"""The audit's two lines for JAX, where nothing can be watched from outside: a compiled step calls no Python.

Without a running audit both return what they got, and neither imports a framework.
"""

from __future__ import annotations

from failuremap.audit.capture.jax.jax_hooks import contribution, watched

__all__ = ["contribution", "watched"]
