"""Holds the JAX backend to the laws of aggregation; prints as JSON which laws each way to combine was held to.

jax_conformance.py [wrong]     with `wrong`, counts are left out, and what check_backend says is printed
"""

from __future__ import annotations

import functools
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, PartitionSpec

from failuremap.aggregate import jax as rules
from failuremap.aggregate.conformance import check_backend
from failuremap.errors import LawBroken

HALF = jnp.bfloat16


@functools.cache
def mapped(device_count: int, rule: str):
    """Return a rule over this many devices, compiled; it returns N, or 1, beside the result."""
    devices = jax.devices()[:device_count]
    mesh = jax.make_mesh((device_count,), ("dp",), axis_types=(AxisType.Auto,), devices=devices)

    def body(gradient, count):
        if rule == "weighted_mean":
            return rules.weighted_mean(gradient[0], count[0], "dp")
        return getattr(rules, rule)(gradient[0], "dp"), jnp.int32(1)

    own, same = PartitionSpec("dp"), PartitionSpec()
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=(own, own), out_specs=same))


def over_devices(contributions, counts, rule, dtype=None):
    """Combine contributions that lie on one device each."""
    given = np.stack(contributions)
    result, total = mapped(len(contributions), rule)(jnp.array(given, dtype), jnp.array(counts or [1] * len(given)))
    return np.asarray(result, given.dtype) if total else None


def over_devices_without_counts(contributions, counts, rule):
    """Combine them wrongly."""
    return over_devices(contributions, counts and [1] * len(counts), rule)


WINDOW = rules.accumulate(optax.scale_by_schedule(lambda _: 1.0))
UPDATE = jax.jit(lambda gradient, state, count, flush: WINDOW.update(gradient, state, count=count, flush=flush))


def over_micro_batches(contributions, counts, rule, dtype=None):
    """Combine contributions that come one after the other."""
    state = WINDOW.init(jnp.array(contributions[0], dtype))
    for k, (gradient, count) in enumerate(zip(contributions, counts, strict=True), start=1):
        update, state = UPDATE(jnp.array(gradient, dtype), state, jnp.int32(count), k == len(counts))
    return np.asarray(update, contributions[0].dtype) if int(state.inner.count) else None


def held(combine, **options):
    """Return law -> number of cases."""
    wide = check_backend(combine, dtypes=["float16", "float32"], **options)
    narrow = check_backend(functools.partial(combine, dtype=HALF), dtypes=["bfloat16"], **options)
    return {law: count + narrow.case_counts.get(law, 0) for law, count in wide.case_counts.items()}


if __name__ == "__main__":
    if "wrong" in sys.argv:
        try:
            check_backend(over_devices_without_counts, dtypes=["float32"], contribution_counts=[2])
        except LawBroken as broken:
            print(json.dumps(str(broken)))
    else:
        devices = held(over_devices, contribution_counts=[1, 2, 3])
        micro_batches = held(over_micro_batches, rules=["weighted_mean"], contribution_counts=[1, 2, 3])
        print(json.dumps({"devices": devices, "micro-batches": micro_batches}))
