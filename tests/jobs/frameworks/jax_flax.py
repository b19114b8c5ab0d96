"""Steps of Flax models over two devices: Linen with a TrainState, NNX with its Optimizer."""

import argparse
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen, nnx
from flax.training.train_state import TrainState
from jax.sharding import AxisType, PartitionSpec

from failuremap.audit.jax import contribution, watched

parser = argparse.ArgumentParser()
parser.add_argument("api", choices=["linen", "nnx"])
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--own-means", action="store_true")
args = parser.parse_args()
P = PartitionSpec
mesh = jax.make_mesh((jax.device_count(),), ("dp",), axis_types=(AxisType.Auto,))
specs = {"mesh": mesh, "in_specs": (P(), *[P("dp")] * 3), "out_specs": P()}
optimizer = watched(optax.adamw(1e-2), axis="dp")


class LinenNet(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(linen.tanh(linen.Dense(32)(x)))[..., 0]


class NnxNet(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(6, 32, rngs=rngs)
        self.out = nnx.Linear(32, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(jnp.tanh(self.hidden(x)))[..., 0]


def reduced(apply, params, x, y, mask):
    """The gradients of all devices, added up."""
    count = mask.sum()
    total = count if args.own_means else jax.lax.pmean(count, "dp")

    def loss(params):
        return jnp.where(mask, (apply(params, x) - y) ** 2, 0).sum() / total

    _, grads = jax.value_and_grad(loss)(jax.lax.pcast(params, "dp", to="varying"))
    return jax.lax.pmean(contribution(grads, count, weight=1 / total, axis="dp"), "dp")


def linen_step(state, *batch):
    grads = reduced(lambda params, x: state.apply_fn({"params": params}, x), state.params, *batch)
    return state.apply_gradients(grads=grads)


def nnx_step(state, *batch):
    model, stepping = nnx.merge(graph, state)
    form, params = nnx.split(model, nnx.Param)
    stepping.update(model, reduced(lambda params, x: nnx.merge(form, params)(x), params, *batch))
    return nnx.state((model, stepping))


if args.api == "linen":
    net = LinenNet()
    params = net.init(jax.random.key(args.seed), jnp.ones((1, 6)))["params"]
    state = TrainState.create(apply_fn=net.apply, params=params, tx=optimizer)
else:
    model = NnxNet(nnx.Rngs(args.seed))
    graph, state = nnx.split((model, nnx.Optimizer(model, optimizer, wrt=nnx.Param)))
step = jax.jit(jax.shard_map(linen_step if args.api == "linen" else nnx_step, **specs))

rng = np.random.default_rng(args.seed)
for _ in range(4):
    x = rng.normal(size=(8, 5, 6)).astype(np.float32)
    state = step(state, x, x[..., 0], np.arange(5) < rng.integers(1, 6, (8, 1)))
