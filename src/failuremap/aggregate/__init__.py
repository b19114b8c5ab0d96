"""The right rules, applied: gradients combined as a contract says, on lists and on NumPy arrays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from failuremap.aggregate import plain
from failuremap.aggregate.checks import checked_counts, checked_rule, tensor_advice
from failuremap.errors import InvalidArgument

if TYPE_CHECKING:
    import numpy as np

RuleName = Literal["weighted_mean", "sum", "mean"]


@overload
def aggregate(
    contributions: np.ndarray[Any, Any] | Sequence[np.ndarray[Any, Any]],
    counts: Sequence[Any] | np.ndarray[Any, Any] | None = None,
    *,
    rule: RuleName = "weighted_mean",
) -> np.ndarray[Any, Any] | None: ...


@overload
def aggregate(
    contributions: Sequence[Sequence[plain.Number]],
    counts: Sequence[Any] | np.ndarray[Any, Any] | None = None,
    *,
    rule: RuleName = "weighted_mean",
) -> list[plain.Number]: ...


def aggregate(contributions: Any, counts: Any = None, *, rule: RuleName = "weighted_mean") -> Any:
    """Combines gradients by a stated rule: update = sum over k of c_k * g_k.

    `weighted_mean` has c_k = n_k/N: the mean over all units, of gradients that are means over n_k units each.
    `sum` has c_k = 1: disjoint parts of one gradient are added. `mean` has c_k = 1/K.
    A contribution with count 0 is skipped, whatever it holds: NaN, or nothing at all. Where nothing is left to
    combine the result is "no update", not zeros, which an optimizer would step on.

    Args:
        contributions: K gradients of one shape: lists of numbers, or NumPy arrays of one dtype (float16, float32,
            float64, or integers, which become float64). An array's first axis is K.
        counts: Units behind each gradient, 0 or more, for `weighted_mean` only.
        rule: `weighted_mean`, `sum` or `mean`.

    Returns:
        For lists a list: a sum of ints is an int, Fractions stay exact, all else is the exact result rounded once;
        `[]` where nothing is left. For arrays an array of their shape and dtype, accumulated in float64 and rounded
        once; None where nothing is left.

    Raises:
        InvalidArgument: Shapes or dtypes differ, a count is no count, counts are missing, or not used.

    Example:
        >>> aggregate([[1, 2], [3, 4]], counts=[1, 3])
        [2.5, 3.5]
        >>> aggregate([[1, 2], [3, 4]], rule="sum")
        [4, 6]

    Source:
        Contracts of FA-99241 (weighted mean) and FA-99246 (sum).
    """
    checked_rule(rule)
    if _is_array(contributions) or (_is_sequence(contributions) and any(map(_is_array, contributions))):
        from failuremap.aggregate import numpy_

        gradients = list(contributions)
        return numpy_.combine(gradients, checked_counts(counts, len(gradients), rule), rule)
    if not _is_sequence(contributions):
        raise InvalidArgument(
            f"contributions is of type {type(contributions).__name__}; "
            f"expected a list of lists of numbers, or NumPy arrays.{tensor_advice(contributions)}"
        )
    return plain.combine(contributions, checked_counts(counts, len(contributions), rule), rule)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_array(value: Any) -> bool:
    """True for a NumPy array, without importing NumPy: who holds one has imported it."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)
