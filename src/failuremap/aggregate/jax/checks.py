"""What is refused while JAX traces: gradients that were summed already, and counts that count nothing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from failuremap.aggregate.checks import fault_of
from failuremap.errors import InvalidArgument

Axes = str | Sequence[str]


def check_gradients(grads: Any, axis_name: Axes, rule: str) -> None:
    """Refuses a gradient that isn't one device's own.

    Raises:
        InvalidArgument: The axis is not bound, or a leaf is no float array or doesn't vary over the axis.
    """
    varies = _varying(_index_of(axis_name, rule))
    hidden = [axis for axis in _names(axis_name) if axis not in varies]
    if hidden:
        warnings.warn(
            f"{rule} over axis {hidden[0]!r}: check_vma=False (or vmap) hides whether a gradient was summed over it "
            "already; one that was comes out too large by the number of devices. shard_map's check_vma=True, its "
            "default, lets that be checked.",
            stacklevel=3,
        )
    for path, leaf in jax.tree_util.tree_flatten_with_path(grads)[0]:
        name = f"grads{jax.tree_util.keystr(path)}"
        _check_dtype(name, leaf)
        for axis in _names(axis_name):
            if axis not in hidden and axis not in _varying(leaf):
                raise InvalidArgument(
                    f"{name} doesn't vary over axis {axis!r}: it has been summed over it already, as jax.grad does for "
                    f"parameters that are the same on all devices. {rule} adds up each device's own gradient: "
                    f"differentiate with respect to jax.lax.pcast(params, {axis!r}, to='varying')."
                )


def device_count(count: Any, axis_name: Axes) -> jax.Array:
    """Returns this device's count as an integer scalar.

    Raises:
        InvalidArgument: It is no count, or the same for all devices though an array.
    """
    own = checked_count(count)
    varies = _varying(jax.lax.axis_index(axis_name))
    for axis in _names(axis_name) if isinstance(count, jax.Array) else ():
        if axis in varies and axis not in _varying(count):
            raise InvalidArgument(
                f"count doesn't vary over axis {axis!r}: it was summed over it, or is the same on all devices. Give "
                f"each device's own count; where all are equal, use rule mean, or jax.lax.pcast(count, {axis!r}, "
                "to='varying')."
            )
    return own


def checked_count(count: Any) -> jax.Array:
    """Returns a count as an integer scalar; of a traced one only shape and dtype can be looked at.

    Raises:
        InvalidArgument: It is no count.
    """
    widest = jnp.asarray(0).dtype
    if not isinstance(count, jax.Array):
        fault = fault_of(count)
        if not fault and count > np.iinfo(widest).max:
            fault = f"beyond {widest}, the widest integer that JAX has here"
        if fault:
            raise InvalidArgument(
                f"count={count!r} is {fault}; a count is how many units (tokens, examples) the gradient is a mean "
                "over, so 0 or more."
            )
        return jnp.asarray(int(count))
    if count.shape:
        raise InvalidArgument(f"count has shape {count.shape}; expected a scalar, one for each device.")
    if not jnp.issubdtype(count.dtype, jnp.integer):
        raise InvalidArgument(
            f"count has dtype {count.dtype}; expected an integer, such as jnp.sum(mask, dtype=jnp.int32)."
        )
    return count.astype(widest)


def accumulator_dtype(dtype: Any) -> Any:
    """Returns what gradients of a dtype are added up in: float32, or a wider dtype of their own."""
    return jnp.promote_types(dtype, jnp.float32)


def check_like(grads: Any, sums: Any) -> None:
    """Refuses gradients that don't fit the sums that they are to be added to.

    Raises:
        InvalidArgument: Other keys or shapes, or no floats.
    """
    tree: Any
    leaves, tree = jax.tree_util.tree_flatten_with_path(grads)
    expected: Any = jax.tree.structure(sums)
    if tree != expected:
        raise InvalidArgument(f"grads has the structure {tree}, but the parameters of init() had {expected}.")
    for (path, leaf), total in zip(leaves, jax.tree.leaves(sums), strict=True):
        name = f"grads{jax.tree_util.keystr(path)}"
        _check_dtype(name, leaf)
        if jax.typeof(leaf).shape != total.shape:
            raise InvalidArgument(
                f"{name} has shape {jax.typeof(leaf).shape}, but the parameter of init() had {total.shape}."
            )


def _check_dtype(name: str, leaf: Any) -> None:
    dtype = jax.typeof(leaf).dtype
    if not jnp.issubdtype(dtype, jnp.floating):
        raise InvalidArgument(f"{name} has dtype {dtype}; expected a float, as a gradient has.")


def _index_of(axis_name: Axes, rule: str) -> jax.Array:
    try:
        return jax.lax.axis_index(axis_name)
    except NameError:
        raise InvalidArgument(
            f"axis_name={axis_name!r} is not bound here; call {rule} inside jax.shard_map over a mesh that has it."
        ) from None


def _names(axis_name: Axes) -> tuple[str, ...]:
    return (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)


def _varying(value: Any) -> frozenset[str]:
    names: frozenset[str] = jax.typeof(value).manual_axis_type.varying
    return names
