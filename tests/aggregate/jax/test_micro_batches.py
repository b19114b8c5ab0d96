"""JAX: micro-batches of unequal counts make the step that their units would make in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from failuremap.errors import InvalidArgument

pytestmark = pytest.mark.jax

NAN, INF = float("nan"), float("inf")


def run(
    micro_batches: Sequence[tuple[list[float], Any, bool]],
    every_k: int | None = None,
    inner: Any = None,
    dtype: str = "float32",
) -> tuple[list[list[float]], Any]:
    """Return the updates after each micro-batch (gradient, count, flush), negated, and the last state."""
    import jax
    import jax.numpy as jnp
    import optax

    from failuremap.aggregate.jax import accumulate

    window = accumulate(inner or optax.sgd(1.0), every_k)
    params = {"w": jnp.zeros(len(micro_batches[0][0]), dtype)}
    state = window.init(params)
    step = jax.jit(lambda g, s, n, f: window.update({"w": g}, s, params, count=n, flush=f))
    updates = []
    for gradient, count, flush in micro_batches:
        update, state = step(jnp.array(gradient, dtype), state, jnp.int32(count), flush)
        assert update["w"].dtype == dtype
        updates.append((-update["w"]).tolist())
    return updates, state


def test_a_window_is_the_mean_over_its_units() -> None:
    updates, _ = run([([1.0, 2.0], 3, False), ([5.0, 6.0], 1, False)] * 2, every_k=2)

    assert updates == [[0.0, 0.0], [2.0, 3.0]] * 2


def test_negative_control_optax_weighs_micro_batches_alike() -> None:
    import jax.numpy as jnp
    import optax

    window = optax.MultiSteps(optax.sgd(1.0), 2)
    state = window.init(jnp.zeros(1))
    for gradient in (1.0, 5.0):
        update, state = window.update(jnp.array([gradient]), state, jnp.zeros(1))

    assert update.tolist() == [-3.0]


def test_a_micro_batch_split_in_two_changes_nothing() -> None:
    whole, _ = run([([1.0], 4, False), ([6.0], 4, True)])
    split, _ = run([([1.0], 4, False), ([6.0], 1, False), ([6.0], 3, True)])

    assert whole[-1] == split[-1] == [3.5]


@pytest.mark.parametrize("poison", [NAN, INF])
def test_a_micro_batch_without_units_contributes_nothing(poison: float) -> None:
    updates, _ = run([([poison], 0, False), ([4.0], 2, False)], every_k=2)

    assert updates == [[0.0], [4.0]]


def test_a_nan_with_units_is_seen() -> None:
    updates, _ = run([([NAN], 1, False), ([4.0], 2, False)], every_k=2)

    assert str(updates[-1]) == "[nan]"


def test_a_window_without_units_is_no_step() -> None:
    import jax
    import optax

    _, before = run([([2.0], 1, True)], inner=optax.adamw(0.1))
    updates, after = run([([2.0], 1, True), ([NAN], 0, False), ([NAN], 0, True)], inner=optax.adamw(0.1))

    assert updates[1:] == [[0.0], [0.0]]
    # the sums of a closed window are dropped by the next micro-batch
    after, before = (jax.tree.map(lambda value: value.tolist(), state._replace(sums=None)) for state in (after, before))
    assert after == before


def test_a_short_last_window_is_divided_by_its_own_units() -> None:
    updates, _ = run([([1.0], 1, False), ([3.0], 1, False), ([6.0], 1, False), ([9.0], 2, True)], every_k=3)

    assert updates[2][0] == pytest.approx(10 / 3, rel=2**-23)
    assert updates[3] == [9.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_long_window_of_low_precision_loses_nothing(dtype: str) -> None:
    updates, _ = run([([256.0], 1, False), *[([0.75], 1, False)] * 63], every_k=64, dtype=dtype)

    assert updates[-1] == [4.75 if dtype == "bfloat16" else 4.73828125]


def test_what_the_inner_transformation_takes_reaches_it() -> None:
    import jax.numpy as jnp
    import optax

    from failuremap.aggregate.jax import accumulate

    def update(grads: Any, state: Any, params: Any = None, *, scale: float, **_: Any) -> Any:
        return grads * scale + params, state

    window = accumulate(optax.GradientTransformationExtraArgs(lambda _: (), update), 1)
    params = jnp.array([1.0])
    updates, _ = window.update(jnp.array([2.0]), window.init(params), params, count=3, scale=10.0)

    assert updates.tolist() == [21.0]


def test_devices_and_micro_batches_together_make_one_mean() -> None:
    import jax
    import jax.numpy as jnp
    import optax
    from jax.sharding import AxisType, PartitionSpec

    from failuremap.aggregate.jax import accumulate, weighted_mean

    window = accumulate(optax.adam(1.0), 2)
    mesh = jax.make_mesh((1,), ("dp",), axis_types=(AxisType.Auto,), devices=jax.devices()[:1])

    def step(params: Any, state: Any, x: Any) -> Any:
        own = jax.lax.pcast(params, "dp", to="varying")
        grads = jax.grad(lambda p: (x @ p).mean())(own)
        grads, total = weighted_mean(grads, len(x), "dp")
        updates, state = window.update(grads, state, params, count=total)
        return optax.apply_updates(params, updates), state

    specs = {"in_specs": (PartitionSpec(), PartitionSpec(), PartitionSpec("dp")), "out_specs": PartitionSpec()}
    mapped = jax.jit(jax.shard_map(step, mesh=mesh, **specs))
    params, state = jnp.zeros(1), window.init(jnp.zeros(1))
    for x in ([[1.0]], [[2.0], [3.0], [6.0]]):
        params, state = mapped(params, state, jnp.array(x))

    assert state.inner[0].mu.tolist() == pytest.approx([0.3], rel=2**-22)
    assert (int(state.total), int(state.micro_batches), int(state.inner[0].count)) == (0, 0, 1)


def test_a_traced_negative_count_makes_the_update_nan() -> None:
    updates, _ = run([([1.0], -1, False), ([4.0], 1, False)], every_k=2)

    assert str(updates[-1]) == "[nan]"


@pytest.mark.parametrize("every_k", [0, -1, 2.0, True, "2"])
def test_a_window_length_that_is_none_is_refused(every_k: Any) -> None:
    import optax

    from failuremap.aggregate.jax import accumulate

    with pytest.raises(InvalidArgument) as refused:
        accumulate(optax.sgd(1.0), every_k)

    assert str(refused.value) == (
        f"every_k={every_k!r} is no number of micro-batches; expected 1 or more, or None for windows that flush=True "
        "closes."
    )


@pytest.mark.parametrize(
    ("grads", "count", "message"),
    [
        (
            {"w": [1.0, 2.0]},
            None,
            "count=None: accumulate needs the number of units behind each micro-batch; call update(grads, state, param",
        ),
        ({"w": [1.0, 2.0]}, 1.5, "count=1.5 is not whole; a count is how many units (tokens, examples) the gradient"),
        ({"w": [1.0]}, 1, "grads['w'] has shape (1,), but the parameter of init() had (2,)."),
        ({"w": [1, 2]}, 1, "grads['w'] has dtype int32; expected a float, as a gradient has."),
        ({"b": [1.0, 2.0]}, 1, "grads has the structure PyTreeDef({'b': *}), but the parameters of init() had"),
    ],
)
def test_what_does_not_fit_the_window_is_refused(grads: Any, count: Any, message: str) -> None:
    import jax.numpy as jnp
    import optax

    from failuremap.aggregate.jax import accumulate

    window = accumulate(optax.sgd(1.0), 2)
    state = window.init({"w": jnp.zeros(2)})

    with pytest.raises(InvalidArgument) as refused:
        window.update({key: jnp.array(values) for key, values in grads.items()}, state, count=count)

    assert str(refused.value).startswith(message)
