"""Data parallelism and accumulation in plain JAX: shard_map over the devices, optax for the steps."""

import argparse
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, PartitionSpec

from failuremap.audit.jax import contribution, watched

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--counts", default="all", choices=["all", "own"])
parser.add_argument("--never-reduced", action="store_true")
parser.add_argument("--equal", action="store_true")
parser.add_argument("--save", default="")
args = parser.parse_args()

P = PartitionSpec
mesh = jax.make_mesh((jax.device_count(),), ("dp",), axis_types=(AxisType.Auto,))
inner = watched(optax.sgd(0.1), axis="dp")
optimizer = optax.MultiSteps(inner, args.accum) if args.accum > 1 else inner


def predict(params, x):
    return jnp.tanh(x @ params["hidden"]) @ params["out"]


def loss(params, x, y, mask, total):
    return jnp.where(mask, (predict(params, x) - y) ** 2, 0).sum() / total


def step(params, state, x, y, mask):
    own = jax.lax.pcast(params, "dp", to="varying")
    count = mask.sum()
    total = jax.lax.psum(count, "dp") / jax.lax.axis_size("dp") if args.counts == "all" else count
    grads = jax.grad(loss)(own, x, y, mask, total)
    grads = contribution(grads, count, weight=1 / total, axis="dp")
    if not args.never_reduced:
        grads = jax.lax.pmean(grads, "dp")
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state


out = P("dp") if args.never_reduced else P()
step = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(P(), P(), *[P("dp")] * 3), out_specs=P(), check_vma=False))

rng = np.random.default_rng(args.seed)
params = {
    "hidden": jnp.asarray(rng.normal(size=(6, 32)), jnp.float32),
    "out": jnp.asarray(rng.normal(size=32), jnp.float32),
}
state = optimizer.init(params)
for _ in range(args.steps * args.accum):
    x = rng.normal(size=(8, 5, 6)).astype(np.float32)
    lengths = np.full((8, 1), 3) if args.equal else rng.integers(1, 6, (8, 1))
    params, state = step(params, state, x, x[..., 0], np.arange(5) < lengths)
if args.save:
    np.savez(args.save, **params)
