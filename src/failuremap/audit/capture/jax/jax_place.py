"""Where a line of `failuremap.audit.jax` stands while JAX traces it: on which device of how many, and what is amiss."""

from __future__ import annotations

from typing import Any

from failuremap.errors import InvalidArgument

Axis = str | tuple[str, ...] | None


def place(axis: Axis, line: str) -> tuple[Any, int]:
    """Returns this device's number, known when the step runs, and the number of them.

    Raises:
        InvalidArgument: The axis is not bound here, or devices differ along others, too.
    """
    import jax

    names = _names(axis)
    try:
        found = (jax.lax.axis_index(axis), int(jax.lax.axis_size(axis))) if names else (0, 1)
    except NameError:
        raise InvalidArgument(
            f"axis={axis!r} of {line}() is not bound here: it is the name of an axis inside jax.shard_map or jax.pmap. "
            "In a step under jax.jit alone leave axis out; where several processes run it together, say axis=()."
        ) from None
    left = tuple(name for name, size in _bound().items() if size > 1 and name not in names)
    if left:
        raise InvalidArgument(_left_out(axis, line, names, left))
    return (jax.process_index(), jax.process_count()) if axis is None else found


def flattened(tree: Any, name: str = "") -> tuple[list[Any], Any, tuple[str, ...]]:
    """Returns the leaves of a tree, its structure, and a name for each leaf, which begins with that of the tree."""
    import jax

    paths, treedef = jax.tree_util.tree_flatten_with_path(tree)
    first = f"{name}." if name else ""
    return [leaf for _, leaf in paths], treedef, tuple(first + _name(path) for path, _ in paths)


def _name(path: tuple[Any, ...]) -> str:
    import jax

    # a variable of Flax NNX holds its array as an attribute, and its optimizer takes it out
    inside = bool(path) and getattr(path[-1], "name", None) == "value"
    return jax.tree_util.keystr(path[:-1] if inside else path, simple=True, separator=".") or "parameter"


def check_own(leaves: list[Any], names: tuple[str, ...], axis: Axis) -> None:
    """Refuses gradients that were added up over the devices before they were said.

    `check_vma=False` and `pmap` hide it; the verdict then sees that all devices say the same.

    Raises:
        InvalidArgument: By its type a gradient is the same on all devices.
    """
    import jax

    for one in _names(axis):
        if one not in _varying(jax.lax.axis_index(one)):
            continue
        for leaf, name in zip(leaves, names, strict=True):
            if one not in _varying(leaf):
                raise InvalidArgument(
                    f"gradients[{name!r}] doesn't vary over axis {one!r}: it has been added up over it already, as "
                    "jax.grad does for parameters that are the same on all devices. contribution() takes each device's "
                    f"own: differentiate with respect to jax.lax.pcast(params, {one!r}, to='varying'), and add the "
                    "gradients up behind it, by jax.lax.psum or pmean."
                )


def checked_count(count: Any, axis: Axis) -> Any:
    """Returns a count as a float32 scalar.

    Raises:
        InvalidArgument: It is no scalar, or was added up over the devices.
    """
    import jax
    import jax.numpy as jnp

    found = jnp.asarray(count, jnp.float32)
    if found.shape:
        raise InvalidArgument(
            f"count of contribution() has shape {found.shape}: one number is expected, how many units the loss counts "
            "on this device, such as mask.sum()."
        )
    for one in _names(axis) if isinstance(count, jax.Array) else ():
        if one in _varying(jax.lax.axis_index(one)) and one not in _varying(found):
            raise InvalidArgument(
                f"count of contribution() doesn't vary over axis {one!r}: it was added up over it. Give each device's "
                "own count; where all are equal, give it as a Python number."
            )
    return found


def _names(axis: Axis) -> tuple[str, ...]:
    return () if axis is None else (axis,) if isinstance(axis, str) else tuple(axis)


def _bound() -> dict[str, int]:
    """The axes that devices differ along here, with their sizes."""
    import jax

    mesh: Any = jax.sharding.get_abstract_mesh()
    manual = getattr(mesh, "manual_axes", ())
    return {name: mesh.shape[name] for name in manual}


def _left_out(axis: Axis, line: str, names: tuple[str, ...], left: tuple[str, ...]) -> str:
    every = (*names, *left)
    repair = f"axis={every[0]!r}" if len(every) == 1 else f"axis={every!r}"
    along = " and ".join(map(repr, left))
    if not names:
        return f"{line}() without axis, in a step that runs once on each device along {along}: say so, {repair}."
    return (
        f"axis={axis!r} of {line}(): the devices here differ along {along}, too. Where each has a batch of its own, "
        f"name all axes: {repair}. A model of which each device holds a part can't be audited in JAX."
    )


def _varying(value: Any) -> frozenset[str]:
    import jax

    names: frozenset[str] = getattr(getattr(jax.typeof(value), "manual_axis_type", None), "varying", frozenset())
    return names
