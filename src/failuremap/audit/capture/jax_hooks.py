"""Two lines that make a JAX job audible: where a local gradient is made, and what the optimizer is given.

Both are traced into the compiled step as callbacks, which run once on each device and write the device's own trace:
each device is a rank. Values pass through them unchanged.
"""

from __future__ import annotations

import functools
import os
from typing import Any, NamedTuple, TypeVar

from failuremap.errors import InvalidArgument

T = TypeVar("T")
Axis = str | tuple[str, ...] | None


def contribution(gradients: T, count: Any, *, axis: Axis = None, weight: Any = None) -> T:
    """Says that these are the gradients of one backward on one device, before anything reduces or accumulates them.

    Args:
        gradients: A tree of arrays, as `jax.grad` returns it; returned unchanged.
        count: How many units (tokens, examples) the loss counts here.
        axis: The mesh axes that the devices of the job are told apart by, inside `shard_map` or `pmap`; without it
            every process is one rank.
        weight: What one unit weighs in the loss, `1 / count` if the loss is the mean over its units (the default).

    Example:
        >>> contribution({"w": 0.5}, count=8)  # without a running audit: the same object back
        {'w': 0.5}
    """
    recorder = _recorder()
    if recorder is None:
        return gradients
    import jax
    import jax.numpy as jnp

    count = jnp.asarray(count, jnp.float32)
    weight = 1 / jnp.maximum(count, 1) if weight is None else jnp.asarray(weight, jnp.float32)
    leaves, treedef, names = _flattened(gradients)
    rank, world = _place(axis)
    note = functools.partial(recorder.contribution, names, world)
    passed: T = jax.tree.unflatten(treedef, _after(note, leaves, rank, count, weight))
    return passed


def watched(optimizer: T, *, axis: Axis = None) -> T:
    """Returns an optax optimizer that does the same, and says what gradients it is given at each step.

    Args:
        optimizer: The innermost one, so that `optax.MultiSteps(watched(optax.sgd(0.1)), 4)` steps once a window. In a
            chain with clipping, wrap what follows it.
        axis: As for `contribution`.

    Example:
        >>> optimizer = object()
        >>> watched(optimizer) is optimizer  # without a running audit: the same object back
        True
    """
    recorder = _recorder()
    if recorder is None:
        return optimizer
    if not hasattr(optimizer, "_replace"):
        raise InvalidArgument(
            f"optimizer={type(optimizer).__name__}: an optax.GradientTransformation is expected; of optax.MultiSteps "
            "wrap the one inside: optax.MultiSteps(watched(optimizer), every_k_schedule)."
        )
    import jax
    import jax.numpy as jnp

    inner: Any = optimizer

    def init(params: Any) -> _State:
        return _State(jnp.zeros([], jnp.int32), inner.init(params))

    def update(updates: Any, state: _State, params: Any = None, **extra: Any) -> tuple[Any, _State]:
        leaves, treedef, names = _flattened(updates)
        rank, world = _place(axis)
        note = functools.partial(recorder.step, names, world)
        stepped_on = _after(note, leaves, rank, jax.tree.leaves(params), state.count)
        result, following = inner.update(jax.tree.unflatten(treedef, stepped_on), state.inner, params, **extra)
        return result, _State(state.count + 1, following)

    replaced: T = inner._replace(init=init, update=update)
    return replaced


class _State(NamedTuple):
    """The state of a watched optimizer: MultiSteps takes back what `update` did before the window was full."""

    count: Any
    inner: Any


def _recorder() -> Any:
    """The recorder of this process, if the environment names a trace folder; made at the first call."""
    if not os.environ.get("FAILUREMAP_TRACE_DIR"):
        return None
    from failuremap.audit.capture import jax_recorder

    return jax_recorder.current()


def _flattened(tree: Any) -> tuple[list[Any], Any, tuple[str, ...]]:
    import jax

    paths, treedef = jax.tree_util.tree_flatten_with_path(tree)
    names = tuple(jax.tree_util.keystr(path, simple=True, separator=".") or "parameter" for path, _ in paths)
    return [leaf for _, leaf in paths], treedef, names


def _place(axis: Axis) -> tuple[Any, int]:
    """This device's number, known when the step runs, and the number of them."""
    import jax

    if axis is None:
        return jax.process_index(), jax.process_count()
    return jax.lax.axis_index(axis), int(jax.lax.axis_size(axis))


def _after(note: Any, leaves: list[Any], rank: Any, *told: Any) -> list[Any]:
    """Calls `note` when the step runs; what is returned is there only afterwards, so that records stay in order."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import io_callback

    done = io_callback(note, jax.ShapeDtypeStruct((), "int32"), rank, leaves, *told)
    # a barrier would not do: the compiler drops it before it orders what is left
    return [jnp.where(done == 0, leaf, jnp.zeros_like(leaf)) for leaf in leaves]
