"""Gradients of a whole model: dicts, lists and tuples, however deep, with one leaf for each parameter.

A list of numbers is a leaf, a vector; a list of anything else is a branch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from failuremap.errors import InvalidArgument

_DEEPEST = 200


def leaves_of(tree: Any) -> dict[str, Any]:
    """Returns every leaf by its place, depth first; a tree that is one leaf has it at "".

    Raises:
        InvalidArgument: The tree has more than 200 levels, as one that holds itself.

    Example:
        >>> leaves_of({"head": [1.0, 2.0], "blocks": [[3.0], [4.0]]})
        {"['head']": [1.0, 2.0], "['blocks'][0]": [3.0], "['blocks'][1]": [4.0]}
    """
    return dict(_walk(tree, "", 0))


def rebuilt(model: Any, values: Mapping[str, Any]) -> Any:
    """Makes a tree like the model, with the values at its leaves' places; mappings become dicts.

    Example:
        >>> rebuilt({"a": ([1.0],), "b": [2.0]}, {"['a'][0]": "x", "['b']": "y"})
        {'a': ('x',), 'b': 'y'}
    """
    return _rebuilt(model, values, "")


def check_same_places(leaves: Mapping[str, Any], name: str, model: Mapping[str, Any], model_name: str) -> None:
    """Refuses leaves at other places than the model's, with the first that is missing or too much."""
    for here, name_here, there, name_there in (
        (model, model_name, leaves, name),
        (leaves, name, model, model_name),
    ):
        extra = next((place for place in here if place not in there), None)
        if extra is not None:
            raise InvalidArgument(
                f"{name_here}{extra} is there but {name_there} has nothing at {extra or 'its root'}; "
                "every contribution has the same keys. Give zeros for a parameter without a gradient."
            )


def is_array(value: Any) -> bool:
    """True for a NumPy array, without importing NumPy: who holds one has imported it."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_tensor(value: Any) -> bool:
    """True for a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def is_vector(value: Any) -> bool:
    """True for a list or tuple of numbers, an empty one included."""
    return isinstance(value, list | tuple) and not _is_branch(value)


def _is_branch(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(
            child is None or isinstance(child, Mapping | list | tuple) or is_array(child) or is_tensor(child)
            for child in value
        )
    return isinstance(value, Mapping)


def _walk(node: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
    if not _is_branch(node):
        yield place, node
        return
    if depth == _DEEPEST:
        raise InvalidArgument(
            f"gradient{place[:40]}... goes on after {_DEEPEST} levels of dicts and lists; "
            "expected fewer. Does it hold itself?"
        )
    for key, child in node.items() if isinstance(node, Mapping) else enumerate(node):
        yield from _walk(child, f"{place}[{key!r}]", depth + 1)


def _rebuilt(node: Any, values: Mapping[str, Any], place: str) -> Any:
    if not _is_branch(node):
        return values[place]
    if isinstance(node, Mapping):
        return {key: _rebuilt(child, values, f"{place}[{key!r}]") for key, child in node.items()}
    children = [_rebuilt(child, values, f"{place}[{index!r}]") for index, child in enumerate(node)]
    return type(node)(*children) if hasattr(node, "_fields") else type(node)(children)
