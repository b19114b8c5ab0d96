"""Gradients of micro-batches, combined by their counts: what `optax.MultiSteps` does for equal ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from failuremap.aggregate.jax.checks import accumulator_dtype, check_like, checked_count
from failuremap.errors import InvalidArgument


class AccumulateState(NamedTuple):
    """What `accumulate` carries from one micro-batch to the next.

    Attributes:
        sums: Per parameter: sum over the window of n_m * g_m, in float32 or wider. Those of a closed window stay until
            the next micro-batch, which starts anew: clearing them would take one more pass.
        total: Units in the window so far.
        micro_batches: Micro-batches in the window so far.
        inner: The state of the inner transformation.
    """

    sums: Any
    total: jax.Array
    micro_batches: jax.Array
    inner: Any


def accumulate(
    inner: optax.GradientTransformation, every_k: int | None = None
) -> optax.GradientTransformationExtraArgs:
    """Makes an optimizer step once a window, on the mean over all units of the window's micro-batches.

    Each call of `update` takes one micro-batch and its count: `update(grads, state, params, count=n)`. It returns
    zeros, and leaves the inner state alone, until the window is full; then the inner transformation gets
    sum over m of n_m * g_m / N. A micro-batch with count 0 contributes nothing, whatever its gradient holds, and a
    window without a unit is no step: zeros, and the inner state as it was. `flush=True` closes a window early, as the
    last of an epoch; it is divided by its own N. Works under `jax.jit`, where `count` and `flush` may be traced.

    Args:
        inner: The transformation that steps on the mean.
        every_k: Micro-batches in a window; None closes it only by `flush=True`.

    Raises:
        InvalidArgument: `every_k` is no number of 1 or more. By `update`: the count is missing or none, a gradient is
            no float. A negative count that is traced can't be refused; it makes the window's update NaN.

    Example:
        >>> window = accumulate(optax.sgd(1.0), every_k=2)
        >>> state = window.init(jnp.zeros(1))
        >>> for value, count in ((1.0, 3), (5.0, 1)):
        ...     updates, state = window.update(jnp.array([value]), state, count=count)
        >>> updates.tolist()
        [-2.0]
    """
    _check_every_k(every_k)
    stepping = optax.with_extra_args_support(inner)

    def init(params: Any) -> AccumulateState:
        sums = jax.tree.map(lambda leaf: jnp.zeros_like(leaf, accumulator_dtype(leaf.dtype)), params)
        return AccumulateState(sums, jnp.asarray(0), jnp.asarray(0), stepping.init(params))

    def update(
        grads: Any, state: AccumulateState, params: Any = None, *, count: Any = None, flush: Any = False, **extra: Any
    ) -> tuple[Any, AccumulateState]:
        window = _added(state, grads, count)
        closes = jnp.asarray(flush)
        if every_k is not None:
            closes |= window.micro_batches >= every_k

        def step() -> tuple[Any, Any]:
            updates, stepped = stepping.update(_mean(window, grads), state.inner, params, **extra)
            return updates, stepped

        def wait() -> tuple[Any, Any]:
            updates, _ = jax.eval_shape(step)
            return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), updates), state.inner

        updates, stepped = jax.lax.cond(closes & (window.total > 0), step, wait)
        total, micro_batches = (jnp.where(closes, 0, value) for value in (window.total, window.micro_batches))
        return updates, AccumulateState(window.sums, total, micro_batches, stepped)

    return optax.GradientTransformationExtraArgs(init, update)


def _added(state: AccumulateState, grads: Any, count: Any) -> AccumulateState:
    """Returns the window with one micro-batch more."""
    if count is None:
        raise InvalidArgument(
            "count=None: accumulate needs the number of units behind each micro-batch; call "
            "update(grads, state, params, count=n)."
        )
    check_like(grads, state.sums)
    own = checked_count(count)

    def added(total: jax.Array, leaf: Any) -> jax.Array:
        weight = jnp.where(own < 0, jnp.nan, own).astype(total.dtype)
        before = jnp.where(state.micro_batches == 0, 0, total)
        return before + jnp.where(own == 0, 0, leaf.astype(total.dtype) * weight)

    sums = jax.tree.map(added, state.sums, grads)
    # A negative count, whose sums are NaN, mustn't make the window pass for an empty one.
    return state._replace(sums=sums, total=state.total + jnp.abs(own), micro_batches=state.micro_batches + 1)


def _mean(window: AccumulateState, grads: Any) -> Any:
    def divided(total: jax.Array, leaf: Any) -> jax.Array:
        return (total / window.total.astype(total.dtype)).astype(leaf.dtype)

    return jax.tree.map(divided, window.sums, grads)


def _check_every_k(every_k: Any) -> None:
    if every_k is not None and (isinstance(every_k, bool) or not isinstance(every_k, int) or every_k < 1):
        raise InvalidArgument(
            f"every_k={every_k!r} is no number of micro-batches; expected 1 or more, or None for windows that "
            "flush=True closes."
        )
