"""Two lines that make a JAX job audible: where a local gradient is made, and what the optimizer is given.

Both are traced into the compiled step as callbacks, which run once on each device and write the device's own trace:
each device is a rank. Values pass through them unchanged.
"""

from __future__ import annotations

import functools
import os
from typing import Any, NamedTuple, TypeVar

from failuremap.audit.capture.jax.jax_place import Axis, check_own, checked_count, flattened, place
from failuremap.errors import InvalidArgument

T = TypeVar("T")
# optax states of optimizers that step only at some calls of `update`
_ACCUMULATING = ("MultiStepsState", "ApplyEvery")


def contribution(gradients: T, count: Any, *, axis: Axis = None, weight: Any = None, name: str = "") -> T:
    """Says that these are the gradients of one backward on one device, before anything reduces or accumulates them.

    Args:
        gradients: A tree of arrays, as `jax.grad` returns it; returned unchanged.
        count: How many units (tokens, examples) the loss counts here.
        axis: The mesh axes that the devices of the job are told apart by, inside `shard_map` or `pmap`; without it
            every process is one rank. `()` is one rank for all processes, which run a step under `jit` together.
        weight: What one unit weighs in the loss, `1 / count` if the loss is the mean over its units (the default).
        name: Which tree it is, where several have leaves of the same names, as for `watched`.

    Raises:
        InvalidArgument: In an audited run, while JAX traces: the gradients or the count were added up over the devices
            already, the axis is not bound, there are axes that it leaves out, or two trees share a name.

    Example:
        >>> contribution({"w": 0.5}, count=8)  # without a running audit: the same object back
        {'w': 0.5}
    """
    recorder = _recorder()
    if recorder is None:
        return gradients
    import jax
    import jax.numpy as jnp

    from failuremap.audit.capture.jax.jax_recorder import Line

    leaves, treedef, names = flattened(gradients, name)
    rank, world = place(axis, "contribution")
    check_own(leaves, names, axis)
    count = checked_count(count, axis)
    weight = 1 / jnp.maximum(count, 1) if weight is None else jnp.asarray(weight, jnp.float32)
    shapes = {leaf_name: jnp.shape(leaf) for leaf_name, leaf in zip(names, leaves, strict=True)}
    _check_shapes(shapes, recorder.shapes)
    recorder.traced(shapes, axis)
    note = functools.partial(recorder.contribution, Line(names, world))
    passed: T = jax.tree.unflatten(treedef, _after(note, leaves, rank, count, weight))
    return passed


def watched(optimizer: T, *, axis: Axis = None, name: str = "") -> T:
    """Returns an optax optimizer that does the same, and says what gradients it is given at each step.

    Args:
        optimizer: The innermost one, so that `optax.MultiSteps(watched(optax.sgd(0.1)), 4)` steps once a window. In a
            chain with clipping, wrap what follows it.
        axis: As for `contribution`.
        name: As for `contribution`; several optimizers need it where their leaves have the same names.

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
            f"optimizer={type(optimizer).__name__}: an optax.GradientTransformation is expected{_INSIDE}"
        )
    import jax
    import jax.numpy as jnp

    from failuremap.audit.capture.jax.jax_recorder import Line

    inner: Any = optimizer
    number = recorder.new_optimizer()

    def init(params: Any) -> _State:
        state = inner.init(params)
        _check_steps_at_each_call(state)
        return _State(jnp.zeros([], jnp.int32), state)

    def update(updates: Any, state: _State, params: Any = None, **extra: Any) -> tuple[Any, _State]:
        leaves, treedef, names = flattened(updates, name)
        rank, world = place(axis, "watched")
        _check_names(names, recorder.shapes)
        note = functools.partial(recorder.step, Line(names, world, number))
        stepped_on = _after(note, leaves, rank, jax.tree.leaves(params), state.count)
        result, following = inner.update(jax.tree.unflatten(treedef, stepped_on), state.inner, params, **extra)
        return result, _State(state.count + 1, following)

    replaced: T = inner._replace(init=init, update=update)
    return replaced


_INSIDE = (
    "; what accumulates goes outside: optax.MultiSteps(watched(optimizer), every_k_schedule), "
    "failuremap.aggregate.jax.accumulate(watched(optimizer), every_k)."
)


class _State(NamedTuple):
    """The state of a watched optimizer: MultiSteps takes back what `update` did before the window was full."""

    count: Any
    inner: Any


def _recorder() -> Any:
    """The recorder of this process, if the environment names a trace folder; made at the first call."""
    if not os.environ.get("FAILUREMAP_TRACE_DIR"):
        return None
    from failuremap.audit.capture.jax import jax_recorder

    return jax_recorder.current()


def _check_steps_at_each_call(state: Any) -> None:
    """Refuses an optimizer that accumulates inside: `watched` around it can't tell steps from calls."""
    import jax

    kinds = (type(leaf).__name__ for leaf in jax.tree.leaves(state, is_leaf=_accumulates))
    for kind in kinds:
        if kind in _ACCUMULATING:
            raise InvalidArgument(f"optimizer: watched() is around one that accumulates ({kind}){_INSIDE}")


def _accumulates(node: Any) -> bool:
    return type(node).__name__ in _ACCUMULATING


def _check_shapes(said: dict[str, tuple[int, ...]], before: dict[str, tuple[int, ...]]) -> None:
    for name, shape in said.items():
        if before.get(name, shape) != shape:
            raise InvalidArgument(
                f"gradients[{name!r}] of contribution() has shape {shape}, where one of that name has {before[name]}: "
                "say which tree is which, contribution(grads, count, name=...) and watched(optimizer, name=...)."
            )


def _check_names(stepped: tuple[str, ...], said: dict[str, tuple[int, ...]]) -> None:
    if stepped and said and not said.keys() & set(stepped):
        raise InvalidArgument(
            f"contribution() got a tree with the leaves {', '.join(sorted(said)[:4])}, but the optimizer steps on "
            f"{', '.join(stepped[:4])}: give contribution() the gradients alone, in the tree that the optimizer gets "
            "(of jax.value_and_grad the second of the pair)."
        )


def _after(note: Any, leaves: list[Any], rank: Any, *told: Any) -> list[Any]:
    """Calls `note` when the step runs; what is returned is there only afterwards, so that records stay in order."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import io_callback

    done = io_callback(note, jax.ShapeDtypeStruct((), "int32"), rank, leaves, *told)
    # a barrier would not do: the compiler drops it before it orders what is left
    return [jnp.where(done == 0, leaf, jnp.zeros_like(leaf)) for leaf in leaves]
