"""The right rules in JAX: gradients of devices combined under `shard_map`, those of micro-batches in optax."""

from __future__ import annotations

from failuremap.errors import MissingDependency

try:
    import jax
    import optax
except ImportError as absent:
    raise MissingDependency("failuremap.aggregate.jax", "JAX and optax", "jax") from absent

from failuremap.aggregate.jax.devices import mean as mean
from failuremap.aggregate.jax.devices import sum as sum  # noqa: A004  the rule's name, as in jax.numpy
from failuremap.aggregate.jax.devices import weighted_mean as weighted_mean
from failuremap.aggregate.jax.micro_batches import AccumulateState as AccumulateState
from failuremap.aggregate.jax.micro_batches import accumulate as accumulate

del jax, optax
