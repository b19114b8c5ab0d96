"""JAX: what can't be combined is refused while it traces, by a message that says what to do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from failuremap.errors import InvalidArgument, MissingDependency

pytestmark = pytest.mark.jax

ON_ONE_AXIS = "over axis 'dp': it has been summed over it already, as jax.grad does for parameters that are the same"


def traced(body: Callable[[Any, Any], Any], **options: Any) -> Any:
    """Trace a body under shard_map with parameters that are the same on all devices, and data of its own."""
    import jax
    from jax.sharding import AxisType, PartitionSpec

    mesh = jax.make_mesh((1,), ("dp",), axis_types=(AxisType.Auto,), devices=jax.devices()[:1])
    specs = {"in_specs": (PartitionSpec(), PartitionSpec("dp")), "out_specs": PartitionSpec()}
    return jax.eval_shape(
        jax.shard_map(body, mesh=mesh, **specs, **options), jax.numpy.zeros(2), jax.numpy.ones((1, 2))
    )


def rule(name: str, grads: Any, axis_name: Any = "dp", count: Any = 1) -> Any:
    """Apply a rule and return the gradients."""
    from failuremap.aggregate import jax as rules

    return (
        rules.weighted_mean(grads, count, axis_name)[0]
        if name == "weighted_mean"
        else getattr(rules, name)(grads, axis_name)
    )


def gradient(params: Any, data: Any) -> Any:
    """Return the gradient of a linear loss."""
    import jax

    return jax.grad(lambda p: (data @ p).sum())(params)


def own(params: Any) -> Any:
    """Return parameters as the device's own."""
    import jax

    return jax.lax.pcast(params, "dp", to="varying")


@pytest.mark.parametrize("name", ["weighted_mean", "sum", "mean"])
def test_a_gradient_that_was_summed_already_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        traced(lambda params, data: rule(name, {"w": gradient(params, data)}))

    assert str(refused.value) == (
        f"grads['w'] doesn't vary {ON_ONE_AXIS} on all devices. {name} adds up each device's own gradient: "
        "differentiate with respect to jax.lax.pcast(params, 'dp', to='varying')."
    )


@pytest.mark.parametrize("name", ["weighted_mean", "sum", "mean"])
def test_a_gradient_of_the_device_itself_is_taken(name: str) -> None:
    assert traced(lambda params, data: rule(name, gradient(own(params), data))).shape == (2,)


def test_what_cannot_be_checked_is_said() -> None:
    with pytest.warns(UserWarning, match="check_vma=False") as said:
        traced(lambda params, data: rule("mean", gradient(params, data)), check_vma=False)

    assert str(said[0].message) == (
        "mean over axis 'dp': check_vma=False (or vmap) hides whether a gradient was summed over it already; one that "
        "was comes out too large by the number of devices. shard_map's check_vma=True, its default, lets that be "
        "checked."
    )
    assert said[0].filename == __file__


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (-1, "count=-1 is negative; a count is how many units (tokens, examples) the gradient is a mean over, so 0 or"),
        (0.5, "count=0.5 is not whole;"),
        (True, "count=True is no number;"),
        (float("nan"), "count=nan is not finite;"),
        (2**40, f"count={2**40} is beyond int32, the widest integer that JAX has here;"),
    ],
)
def test_a_count_that_is_none_is_refused(count: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        traced(lambda params, data: rule("weighted_mean", gradient(own(params), data), count=count))

    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (
            lambda data: data.sum(),
            "count has dtype float32; expected an integer, such as jnp.sum(mask, dtype=jnp.int32).",
        ),
        (lambda data: data.any(), "count has dtype bool; expected an integer,"),
        (lambda data: data.astype(int), "count has shape (1, 2); expected a scalar, one for each device."),
    ],
)
def test_a_traced_count_of_another_kind_is_refused(count: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        traced(lambda params, data: rule("weighted_mean", gradient(own(params), data), count=count(data)))

    assert str(refused.value).startswith(message)


def test_a_count_that_was_summed_already_is_refused() -> None:
    import jax

    def body(params: Any, data: Any) -> Any:
        total = jax.lax.psum(data.astype(int).sum(), "dp")
        return rule("weighted_mean", gradient(own(params), data), count=total)

    with pytest.raises(InvalidArgument) as refused:
        traced(body)

    assert str(refused.value) == (
        "count doesn't vary over axis 'dp': it was summed over it, or is the same on all devices. Give each device's "
        "own count; where all are equal, use rule mean, or jax.lax.pcast(count, 'dp', to='varying')."
    )


def test_over_several_axes_a_gradient_varies_over_each() -> None:
    import jax
    from jax.sharding import AxisType, PartitionSpec

    mesh = jax.make_mesh((1, 1), ("dp", "ep"), axis_types=(AxisType.Auto,) * 2, devices=jax.devices()[:1])

    def traced_over_both(spec: Any) -> Any:
        both = jax.shard_map(
            lambda data: rule("weighted_mean", {"w": data[0]}, ("dp", "ep"), count=3),
            mesh=mesh,
            in_specs=spec,
            out_specs=PartitionSpec(),
        )
        return jax.eval_shape(both, jax.numpy.ones((1, 2)))["w"].shape

    assert traced_over_both(PartitionSpec(("dp", "ep"))) == (2,)
    with pytest.raises(InvalidArgument, match=r"^grads\['w'\] doesn't vary over axis 'ep'"):
        traced_over_both(PartitionSpec("dp"))


def test_a_gradient_that_is_no_float_is_refused() -> None:
    with pytest.raises(InvalidArgument) as refused:
        traced(lambda params, data: rule("sum", [data.astype(int)]))

    assert str(refused.value) == "grads[0] has dtype int32; expected a float, as a gradient has."


@pytest.mark.parametrize("axis_name", ["tp", ("dp", "tp")])
def test_an_axis_that_is_not_there_is_refused(axis_name: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        traced(lambda params, data: rule("mean", data, axis_name))

    assert str(refused.value) == (
        f"axis_name={axis_name!r} is not bound here; call mean inside jax.shard_map over a mesh that has it."
    )


@pytest.mark.parametrize("module", ["jax", "optax"])
def test_without_jax_the_line_that_installs_it_is_printed(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "failuremap.aggregate.jax", raising=False)

    with pytest.raises(MissingDependency) as absent:
        importlib.import_module("failuremap.aggregate.jax")

    assert str(absent.value) == (
        "failuremap.aggregate.jax needs JAX and optax. Install it with:  pip install 'failuremap[jax]'"
    )
