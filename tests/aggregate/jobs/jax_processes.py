"""One of several JAX processes with one device each; the first prints the weighted mean as JSON."""

from __future__ import annotations

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from failuremap.aggregate.jax import weighted_mean

GRADIENTS = [[1.0, 2.0], [3.0, float("inf")]]
COUNTS = {"unequal": [1, 3], "zero": [2, 0], "none": [0, 0]}

rank = int(os.environ["RANK"])
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", len(GRADIENTS), rank)
mesh = jax.make_mesh((len(GRADIENTS),), ("dp",), axis_types=(AxisType.Auto,))
own, same = PartitionSpec("dp"), PartitionSpec()
mapped = jax.jit(
    jax.shard_map(lambda g, n: weighted_mean(g[0], n[0], "dp"), mesh=mesh, in_specs=(own, own), out_specs=(same, same))
)


def spread(values, dtype):
    """Return an array of which each process holds its row."""
    return jax.make_array_from_process_local_data(NamedSharding(mesh, own), np.array(values[rank : rank + 1], dtype))


results = {}
for name, counts in COUNTS.items():
    mean, total = mapped(spread(GRADIENTS, np.float32), spread(counts, np.int32))
    results[name] = {"values": jnp.asarray(mean.addressable_data(0)).tolist(), "total": int(total.addressable_data(0))}
if rank == 0:
    print(json.dumps(results))
jax.distributed.shutdown()
