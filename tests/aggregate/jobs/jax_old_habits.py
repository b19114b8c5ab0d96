"""The habits that go wrong in silence under shard_map, on four devices of this process; prints results as JSON."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec

from failuremap.aggregate.jax import weighted_mean

X_KD = jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
W_D = jnp.zeros(2)


def gradient(w, x):
    """Return the gradient of a linear loss, which is the device's own example."""
    return jax.grad(lambda w: (x @ w).sum())(w)


def on_devices(body, **options):
    """Run a body on each device with the weights and its own example."""
    mesh = jax.make_mesh((4,), ("dp",), axis_types=(AxisType.Auto,))
    specs = {"in_specs": (PartitionSpec(), PartitionSpec("dp")), "out_specs": PartitionSpec()}
    return jax.jit(jax.shard_map(body, mesh=mesh, **specs, **options))(W_D, X_KD).tolist()


def varying(w):
    """Return the weights as each device's own."""
    return jax.lax.pcast(w, "dp", to="varying")


print(
    json.dumps(
        {
            "pmean after automatic psum": on_devices(lambda w, x: jax.lax.pmean(gradient(w, x), "dp")),
            "unchecked, no collective": on_devices(gradient, check_vma=False),
            "weighted_mean": on_devices(lambda w, x: weighted_mean(gradient(varying(w), x), 1, "dp")[0]),
        }
    )
)
