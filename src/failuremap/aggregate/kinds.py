"""What a leaf may be: numbers in a list, a NumPy array, a PyTorch tensor; each kind does its own arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from failuremap.aggregate import plain
from failuremap.aggregate.checks import tensor_advice
from failuremap.aggregate.trees import is_array, is_tensor, is_vector
from failuremap.errors import InvalidArgument

if TYPE_CHECKING:
    from failuremap.aggregate.exact_formats import Format
    from failuremap.aggregate.exact_terms import Array


class Kind(Protocol):
    """What aggregation needs of a kind of leaf."""

    NAME: str

    def check(self, leaf: Any, place: str) -> None:
        """Refuses a leaf that is no gradient."""

    def facts(self, leaf: Any) -> dict[str, object]:
        """Returns what all contributions to one parameter have in common, such as the shape."""

    def is_finite(self, leaf: Any) -> bool:
        """Returns whether no number of the leaf is infinite or NaN."""

    def combine(self, leaves: Sequence[Any], weights: Sequence[int], rule: str) -> Any:
        """Returns the leaves' combination by a rule; the weights are 1 or more."""


class ArrayKind(Kind, Protocol):
    """A kind whose numbers can be had as a flat array."""

    def format_of(self, leaf: Any) -> Format:
        """Returns the format of its numbers."""

    def flat(self, leaf: Any) -> tuple[Array, Format]:
        """Returns the numbers, one behind the other, and their format."""

    def shaped(self, values: Array, like: Any) -> Any:
        """Returns flat numbers as a leaf of the shape and dtype of another."""

    def template(self, leaf: Any) -> Any:
        """Returns a leaf of the same shape and dtype that takes no memory."""


class _Nothing:
    """A parameter that has no gradient in any contribution."""

    NAME = "None"

    @staticmethod
    def check(leaf: Any, place: str) -> None:
        """Accepts it."""

    @staticmethod
    def facts(leaf: Any) -> dict[str, object]:  # noqa: ARG004
        """Returns nothing."""
        return {}

    @staticmethod
    def is_finite(leaf: Any) -> bool:  # noqa: ARG004
        """Returns True."""
        return True

    @staticmethod
    def combine(leaves: Sequence[Any], weights: Sequence[int], rule: str) -> None:
        """Returns None."""


def kind_of(leaf: Any, place: str) -> Kind:
    """Returns the kind of a leaf.

    Raises:
        InvalidArgument: It is none that can be added up.
    """
    if leaf is None:
        return _Nothing()
    if is_vector(leaf):
        return plain
    return array_kind_of(leaf, place, "a list of numbers, a NumPy array or a PyTorch tensor")


def array_kind_of(leaf: Any, place: str, expected: str = "a NumPy array or a PyTorch tensor") -> ArrayKind:
    """Returns the kind of an array or tensor.

    Raises:
        InvalidArgument: The leaf is neither.
    """
    if is_array(leaf):
        from failuremap.aggregate import numpy_

        return numpy_
    if is_tensor(leaf):
        from failuremap.aggregate.torch import tensors

        return tensors
    raise InvalidArgument(f"{place} is of type {type(leaf).__name__}; expected {expected}.{tensor_advice(leaf)}")


def check_alike(leaf: Any, place: str, model: Any, model_place: str) -> None:
    """Refuses a leaf of another kind, shape, dtype or device than the model has."""
    kind, model_kind = kind_of(leaf, place), kind_of(model, model_place)
    if kind.NAME != model_kind.NAME:
        absent = leaf is None or model is None
        advice = "give zeros for a parameter without a gradient" if absent else "give one kind"
        raise InvalidArgument(f"{place} is {kind.NAME} but {model_place} is {model_kind.NAME}; {advice}.")
    kind.check(leaf, place)
    for (name, fact), model_fact in zip(kind.facts(leaf).items(), model_kind.facts(model).values(), strict=True):
        if fact != model_fact:
            raise InvalidArgument(
                f"{place} has {name} {fact} but {model_place} has {name} {model_fact}; "
                f"every contribution to one parameter has the same {name}."
            )
