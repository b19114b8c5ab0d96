"""Gradients of devices, combined by a rule inside `jax.shard_map`.

Each device's gradient is a pytree, taken with respect to `jax.lax.pcast(params, axis_name, to="varying")`: of
parameters that are the same on all devices `jax.grad` returns the sum, on which no rule can be applied any more.
Sums are formed in float32 (float64 for float64 gradients) and rounded to the gradients' dtype once.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from failuremap.aggregate.jax.checks import Axes, accumulator_dtype, check_gradients, device_count


def weighted_mean(grads: Any, count: Any, axis_name: Axes) -> tuple[Any, jax.Array]:
    """Returns the mean over all units of all devices, and their number N: sum over k of n_k * g_k / N.

    A device with count 0 contributes nothing, whatever its gradient holds, a NaN too. Where N is 0 the mean is zeros,
    since a traced program can't return "no update": step only where N is above 0. `accumulate(inner, 1)` does, if it
    is given N as its count; an optimizer with momentum or weight decay would step on the zeros.

    Args:
        grads: A pytree of this device's gradients, each a mean over `count` units.
        count: How many units: an int, or an integer scalar that varies over the axis.
        axis_name: The axis of the mesh that the devices lie on, or several.

    Returns:
        The mean, the same on all devices, and N. A negative count, which a trace can't refuse, or an N that the
        integers of JAX don't hold, makes the mean NaN and N -1.

    Raises:
        InvalidArgument: While tracing: a gradient or count that is the same on all devices by its type (so it was
            summed already), no float, no count, or an axis that isn't bound.
    """
    check_gradients(grads, axis_name, "weighted_mean")
    own = device_count(count, axis_name)

    def weighed(leaf: Any) -> jax.Array:
        wide = leaf.astype(accumulator_dtype(leaf.dtype))
        return jnp.where(own == 0, 0, wide * own.astype(wide.dtype))

    sums, total, faults = jax.lax.psum((jax.tree.map(weighed, grads), own, own < 0), axis_name)
    wrong = (faults > 0) | (total < 0)

    def divided(total_of_leaf: jax.Array, leaf: Any) -> jax.Array:
        quotient = total_of_leaf / jnp.maximum(total, 1).astype(total_of_leaf.dtype)
        return jnp.where(wrong, jnp.nan, quotient).astype(leaf.dtype)

    return jax.tree.map(divided, sums, grads), jnp.where(wrong, -1, total)


def mean(grads: Any, axis_name: Axes) -> Any:
    """Returns the mean of all devices' gradients, each with weight 1/K, whatever is behind it.

    Args:
        grads: A pytree of this device's gradients.
        axis_name: The axis of the mesh that the devices lie on, or several.

    Raises:
        InvalidArgument: As `weighted_mean`.
    """
    check_gradients(grads, axis_name, "mean")
    return _combined(grads, axis_name, jax.lax.psum(1, axis_name))


def sum(grads: Any, axis_name: Axes) -> Any:  # noqa: A001  the rule's name, as in jax.numpy
    """Returns the sum of all devices' gradients, which are disjoint parts of one.

    Args:
        grads: A pytree of this device's gradients.
        axis_name: The axis of the mesh that the devices lie on, or several.

    Raises:
        InvalidArgument: As `weighted_mean`.
    """
    check_gradients(grads, axis_name, "sum")
    return _combined(grads, axis_name, 1)


def _combined(grads: Any, axis_name: Axes, divisor: int) -> Any:
    wide = jax.tree.map(lambda leaf: leaf.astype(accumulator_dtype(leaf.dtype)), grads)
    sums = jax.lax.psum(wide, axis_name)
    return jax.tree.map(lambda total, leaf: (total / divisor).astype(leaf.dtype), sums, grads)
