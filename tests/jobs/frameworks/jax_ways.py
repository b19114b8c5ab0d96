"""One training step in JAX, spread over devices in each of the ways that its users have."""

import argparse
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from failuremap.aggregate.jax import accumulate
from failuremap.audit.jax import contribution, watched

parser = argparse.ArgumentParser()
parser.add_argument("way", choices=["shard_map", "pmap", "jit", "processes", "jit-processes"])
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--own-means", action="store_true", help="each device's loss is the mean over its own units")
parser.add_argument("--reduce", default="mean", choices=["mean", "sum", "mean-of-sum"])
parser.add_argument("--automatic", action="store_true", help="leave the sum over the devices to jax.grad")
parser.add_argument("--late", action="store_true", help="say the contribution when it has been added up")
parser.add_argument("--accum", type=int, default=1, help="micro-batches of a window")
parser.add_argument("--inside", default="", choices=["", "scan", "last"], help="accumulate inside the step")
parser.add_argument("--counted", action="store_true", help="accumulate by counts, not optax.MultiSteps")
parser.add_argument("--without-params", action="store_true")
parser.add_argument("--apart", action="store_true", help="each device starts from weights of its own")
args = parser.parse_args()
P = PartitionSpec
AXIS = {"jit": None, "jit-processes": ()}.get(args.way, "dp")
GLOBAL = args.way in ("jit", "jit-processes")

if args.way.endswith("processes"):
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    jax.distributed.initialize(place, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
mesh = jax.make_mesh((jax.device_count(),), ("dp",), axis_types=(AxisType.Auto,))
inner = watched(optax.sgd(0.1), axis=AXIS)
if args.counted:
    optimizer = accumulate(inner, args.accum)
elif args.accum > 1 and not args.inside:
    optimizer = optax.MultiSteps(inner, args.accum)
else:
    optimizer = inner


def loss(params, x, y, mask, total):
    predicted = jnp.tanh(x @ params["hidden"]) @ params["out"]
    return jnp.where(mask, (predicted - y) ** 2, 0).sum() / total, predicted


def gradients(params, x, y, mask, total=None):
    """The gradient of one micro-batch on one device; in a step under jit alone, of all devices together."""
    count = mask.sum()
    total = count if total is None else total
    (_, _), grads = jax.value_and_grad(loss, has_aux=True)(params, x, y, mask, total)
    grads = jax.lax.pmean(grads, "dp") if args.late else grads
    return contribution(grads, count, weight=1 / total, axis=AXIS)


def window(params, x, y, mask, total):
    """The gradient of a whole window, whose micro-batches come stacked."""

    def one(sums, batch):
        grads = gradients(params, *batch, total)
        return grads if args.inside == "last" else jax.tree.map(jnp.add, sums, grads), None

    zeros = jax.tree.map(lambda p: p * 0, params)
    grads, _ = jax.lax.scan(one, zeros, (x, y, mask))
    return grads


def step(params, state, x, y, mask):
    if GLOBAL:
        grads, count = gradients(params, x, y, mask), mask.sum()
    else:
        own = params if args.automatic or args.way == "pmap" else jax.lax.pcast(params, "dp", to="varying")
        count = jax.lax.psum(mask.sum(), "dp")
        total = None if args.own_means else count / jax.lax.axis_size("dp")
        grads = (window if args.inside else gradients)(own, x, y, mask, total)
        if not args.automatic:
            grads = (jax.lax.psum if args.reduce == "sum" else jax.lax.pmean)(grads, "dp")
        if args.reduce == "mean-of-sum":
            grads = jax.lax.psum(grads, "dp")
    given = () if args.without_params else (params,)
    updates, state = optimizer.update(grads, state, *given, **({"count": count} if args.counted else {}))
    return optax.apply_updates(params, updates), state


def spread():
    """The step, compiled, and how arrays get onto the devices."""
    if args.way == "pmap":
        split = lambda a: a.reshape(2, -1, *a.shape[1:])  # noqa: E731
        return jax.pmap(step, axis_name="dp", in_axes=(None, None, 0, 0, 0), out_axes=None), lambda a, spec: split(a)
    if GLOBAL:
        compiled = jax.jit(step)
    else:
        batch, held = (P(None, "dp") if args.inside else P("dp")), (P("dp") if args.apart else P())
        specs = (held, P(), batch, batch, batch)
        compiled = jax.jit(
            jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=(held, P()), check_vma=not args.apart)
        )
    make = jax.make_array_from_callback
    return compiled, lambda a, spec: make(a.shape, NamedSharding(mesh, spec), lambda index: a[index])


rng = np.random.default_rng(args.seed)
run, put = spread()
params = {"hidden": rng.normal(size=(6, 32)), "out": rng.normal(size=32)}
if args.apart:
    params = {name: np.concatenate([value, rng.normal(size=value.shape)]) for name, value in params.items()}
params = {name: value.astype(np.float32) for name, value in params.items()}
if args.way != "pmap":
    params = {name: put(value, P("dp") if args.apart else P()) for name, value in params.items()}
state = jax.jit(optimizer.init)(params)
for _ in range(args.steps * (1 if args.inside else args.accum)):
    shape = (args.accum, 8, 5) if args.inside else (8, 5)
    x = rng.normal(size=(*shape, 6)).astype(np.float32)
    mask = np.arange(5) < rng.integers(1, 6, (*shape[:-1], 1))
    spec = P(None, "dp") if args.inside else P("dp")
    params, state = run(params, state, *[put(a, spec) for a in (x, x[..., 0], mask)])
