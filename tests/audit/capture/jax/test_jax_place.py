"""What is refused of the two lines for JAX, while it traces: each message, word by word."""

from __future__ import annotations

import functools

import pytest

from failuremap.errors import InvalidArgument

pytestmark = pytest.mark.jax


@pytest.fixture(autouse=True)
def an_audit(tmp_path, monkeypatch):
    """Without a running audit nothing is looked at."""
    from failuremap.audit.capture.jax import jax_recorder

    monkeypatch.setenv("FAILUREMAP_TRACE_DIR", str(tmp_path))
    monkeypatch.setattr(jax_recorder, "_recorders", {})


def traced(mark, sizes={"dp": 2}, *, varying=True, check_vma=True):  # noqa: B006
    """Trace a step over a mesh of no devices, in which `mark(gradient, count)` says what it says."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import AbstractMesh, PartitionSpec

    names = tuple(sizes)

    def step(weights, x):
        own = jax.lax.pcast(weights, names, to="varying") if varying else weights
        gradient = jax.grad(lambda w: (x @ w).sum())(own)
        return mark({"w": gradient}, (x > 0).sum())

    specs = {"in_specs": (PartitionSpec(), PartitionSpec(names)), "out_specs": PartitionSpec(names)}
    mesh = AbstractMesh(tuple(sizes.values()), names)
    return jax.eval_shape(jax.shard_map(step, mesh=mesh, check_vma=check_vma, **specs), jnp.ones(3), jnp.ones((8, 3)))


def line(**options):
    """The line `contribution`, with these options."""
    from failuremap.audit.jax import contribution

    return functools.partial(contribution, **options)


def message(*args, **options):
    with pytest.raises(InvalidArgument) as caught:
        traced(*args, **options)
    return str(caught.value)


def test_the_axis_of_the_devices_is_taken():
    assert list(traced(line(axis="dp"))) == ["w"]
    assert list(traced(line(axis=("dp", "sp")), {"dp": 2, "sp": 2})) == ["w"]


def test_the_axis_may_only_be_left_out_where_a_step_runs_once_in_a_process():
    expected = "contribution() without axis, in a step that runs once on each device along 'dp': say so, axis='dp'."

    assert message(line()) == expected


def test_an_axis_that_is_not_there():
    assert message(line(axis="data")) == (
        "axis='data' of contribution() is not bound here: it is the name of an axis inside jax.shard_map or jax.pmap. "
        "In a step under jax.jit alone leave axis out; where several processes run it together, say axis=()."
    )


def test_an_axis_that_is_left_over():
    assert message(line(axis="dp"), {"dp": 2, "tp": 2}) == (
        "axis='dp' of contribution(): the devices here differ along 'tp', too. Where each has a batch of its own, name "
        "all axes: axis=('dp', 'tp'). A model of which each device holds a part can't be audited in JAX."
    )


def test_an_axis_of_one_device_may_be_left_over():
    assert list(traced(line(axis="dp"), {"dp": 2, "tp": 1})) == ["w"]


def test_gradients_that_jax_has_added_up_already():
    assert message(line(axis="dp"), varying=False) == (
        "gradients['w'] doesn't vary over axis 'dp': it has been added up over it already, as jax.grad does for "
        "parameters that are the same on all devices. contribution() takes each device's own: differentiate with "
        "respect to jax.lax.pcast(params, 'dp', to='varying'), and add the gradients up behind it, by jax.lax.psum or "
        "pmean."
    )


def test_without_check_vma_jax_does_not_know_it():
    assert list(traced(line(axis="dp"), varying=False, check_vma=False)) == ["w"]


def test_a_count_that_was_added_up():
    import jax

    mark = line(axis="dp")

    assert message(lambda gradient, count: mark(gradient, jax.lax.psum(count, "dp"))) == (
        "count of contribution() doesn't vary over axis 'dp': it was added up over it. Give each device's own count; "
        "where all are equal, give it as a Python number."
    )


def test_a_count_of_several_numbers():
    import jax.numpy as jnp

    mark = line(axis="dp")

    assert message(lambda gradient, count: mark(gradient, count + jnp.zeros(4))) == (
        "count of contribution() has shape (4,): one number is expected, how many units the loss counts on this "
        "device, such as mask.sum()."
    )


def test_a_number_of_python_is_a_count_for_all_devices():
    mark = line(axis="dp")

    assert list(traced(lambda gradient, _: mark(gradient, 4))) == ["w"]


def test_the_optimizer_itself_is_wrapped_not_multisteps():
    import optax

    from failuremap.audit.jax import watched

    with pytest.raises(InvalidArgument) as caught:
        watched(optax.MultiSteps(optax.sgd(0.1), 2))

    assert str(caught.value) == (
        "optimizer=MultiSteps: an optax.GradientTransformation is expected; what accumulates goes outside: "
        "optax.MultiSteps(watched(optimizer), every_k_schedule), "
        "failuremap.aggregate.jax.accumulate(watched(optimizer), every_k)."
    )


def test_an_optimizer_that_accumulates_inside_is_refused_in_whatever_it_is_wrapped():
    import jax.numpy as jnp
    import optax

    from failuremap.audit.jax import watched

    accumulating = optax.MultiSteps(optax.sgd(0.1), 2).gradient_transformation()
    for inner in (accumulating, optax.chain(optax.clip(1.0), accumulating), optax.apply_every(2)):
        with pytest.raises(InvalidArgument, match=r"^optimizer: watched\(\) is around one that accumulates \("):
            watched(inner).init({"w": jnp.ones(3)})


def test_a_value_beside_the_gradients():
    import jax
    import jax.numpy as jnp
    import optax

    from failuremap.audit.jax import contribution, watched

    optimizer = watched(optax.sgd(0.1))

    def step(params, state, x):
        _, grads = contribution(jax.value_and_grad(lambda p: (x @ p["w"]).sum())(params), 8)
        return optimizer.update(grads, state, params)

    params = {"w": jnp.ones(3)}
    with pytest.raises(InvalidArgument) as caught:
        jax.eval_shape(step, params, optimizer.init(params), jnp.ones((8, 3)))

    assert str(caught.value) == (
        "contribution() got a tree with the leaves 0, 1.w, but the optimizer steps on w: give contribution() the "
        "gradients alone, in the tree that the optimizer gets (of jax.value_and_grad the second of the pair)."
    )


def test_two_trees_with_leaves_of_one_name():
    import jax
    import jax.numpy as jnp

    from failuremap.audit.jax import contribution

    def step(x, second):
        contribution({"w": x}, 4)
        return contribution({"w": x[:2]}, 4, **second)

    with pytest.raises(InvalidArgument) as caught:
        jax.eval_shape(lambda x: step(x, {}), jnp.ones(3))

    assert str(caught.value) == (
        "gradients['w'] of contribution() has shape (2,), where one of that name has (3,): say which tree is which, "
        "contribution(grads, count, name=...) and watched(optimizer, name=...)."
    )
    assert jax.eval_shape(lambda x: step(x, {"name": "critic"}), jnp.ones(3))["w"].shape == (2,)
