"""Combines gradients on several devices of this process; reads cases as JSON, prints results as JSON.

A case: rule, dtype, gradients (one vector of floats for each device), counts.
"""

from __future__ import annotations

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec

from failuremap.aggregate import jax as rules


def combine(cases: list[dict]) -> list[dict]:
    """Return the results of cases with one number of devices, which are the same on each."""
    device_count = len(cases[0]["counts"])
    devices = jax.devices()[:device_count]
    mesh = jax.make_mesh((device_count,), ("dp",), axis_types=(AxisType.Auto,), devices=devices)
    own, same = PartitionSpec("dp"), PartitionSpec()

    def body(gradients, counts):
        return [by_rule(case["rule"], g[0], n[0]) for case, g, n in zip(cases, gradients, counts, strict=True)]

    mapped = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=(own, own), out_specs=same))
    gradients = [jnp.array(case["gradients"], case["dtype"]) for case in cases]
    results = mapped(gradients, [jnp.array(case["counts"], jnp.int64) for case in cases])
    return [written(case, *result) for case, result in zip(cases, results, strict=True)]


def by_rule(rule, gradient, count):
    """Return a tree of gradients combined by a rule, and N, or -1 for a rule without one."""
    grads = {"layer": [gradient]}
    if rule == "weighted_mean":
        return rules.weighted_mean(grads, count, "dp")
    return getattr(rules, rule)(grads, "dp"), jnp.int64(-1)


def written(case, grads, total) -> dict:
    """Return a result as JSON has it."""
    (result,) = grads["layer"]
    assert result.dtype == case["dtype"]
    assert len({np.asarray(copy.data).tobytes() for copy in result.addressable_shards}) == 1
    return {"values": np.asarray(result, np.float64).tolist(), "total": int(total)}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    all_cases = json.load(sys.stdin)
    printed = {}
    for size in {len(case["counts"]) for case in all_cases}:
        at = [index for index, case in enumerate(all_cases) if len(case["counts"]) == size]
        printed |= dict(zip(at, combine([all_cases[index] for index in at]), strict=True))
    print(json.dumps([printed[index] for index in range(len(all_cases))]))
