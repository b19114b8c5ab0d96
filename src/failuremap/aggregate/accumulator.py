"""A running sum that loses nothing: correctly rounded, whatever the order, the grouping or the number of workers."""

from __future__ import annotations

from typing import Any

import numpy as np

from failuremap.aggregate.checks import checked_counts, checked_rule, tensor_advice
from failuremap.aggregate.exact_state import ExactSum
from failuremap.aggregate.exact_terms import Array
from failuremap.errors import InvalidArgument

_FLOATS = ("float16", "float32", "float64")


class Accumulator:
    """Adds gradients up exactly, and rounds once, when the result is asked for.

    The exact sum is held, so any order of `add`, and any way to `merge`, gives the same bits. Its memory is twice that
    of a float32 gradient, and twice that of a float64 one.

    Args:
        rule: `weighted_mean` (each gradient is a mean over `count` units), `sum`, or `mean`.

    Example:
        >>> import numpy as np
        >>> window = Accumulator("sum")
        >>> for value in (1e16, 1.0, -1e16):
        ...     window.add(np.array([value]))
        >>> window.result()
        array([1.])
    """

    def __init__(self, rule: str = "weighted_mean") -> None:
        checked_rule(rule)
        self.rule = rule
        self.total_count = 0
        """Units behind the sum: the counts' total for `weighted_mean`, else how many gradients there are."""
        self._sum: ExactSum | None = None
        self._like: Array = np.empty(0)  # one element, of the gradients' dtype, seen in their shape

    def add(self, gradient: Array, count: int | None = None) -> None:
        """Adds one gradient; one with count 0 is skipped, whatever it holds.

        Args:
            gradient: float16, float32 or float64; its shape and dtype are those of the first one.
            count: Units that the gradient is a mean over; for `weighted_mean` only.

        Raises:
            InvalidArgument: Another shape or dtype; a count that is none, is missing, or has no use. The sum stays
                as it was.
        """
        (weight,) = checked_counts(None if count is None else [count], 1, self.rule)
        if not weight:
            return
        self._check(gradient)
        if self._sum is None:
            self._sum = ExactSum(gradient.size)
            self._like = np.broadcast_to(gradient.dtype.type(0), gradient.shape)
        self._sum.add(gradient.reshape(-1), weight)
        self.total_count += weight

    def merge(self, other: Accumulator) -> None:
        """Adds another accumulator's sum to this one; the other is left as it is.

        Raises:
            InvalidArgument: The other has another rule, shape or dtype.
        """
        if other.rule != self.rule:
            raise InvalidArgument(
                f"other.rule={other.rule!r} but this accumulator's rule is {self.rule!r}; merge sums of one rule."
            )
        if other._sum is None:
            return
        self._check(other._like)
        if self._sum is None:
            self._sum, self._like = ExactSum(other._like.size), other._like
        self._sum.merge(other._sum)
        self.total_count += other.total_count

    def result(self) -> Array | None:
        """Returns the sum or mean, rounded once to the gradients' dtype; None where no unit was added."""
        if self._sum is None:
            return None
        divisor = 1 if self.rule == "sum" else self.total_count
        return self._sum.rounded(divisor, self._like.dtype).reshape(self._like.shape)

    def _check(self, gradient: Any) -> None:
        if not isinstance(gradient, np.ndarray | np.generic):
            raise InvalidArgument(
                f"gradient is of type {type(gradient).__name__}; expected a NumPy array.{tensor_advice(gradient)}"
            )
        if gradient.dtype.name not in _FLOATS:
            raise InvalidArgument(
                f"gradient has dtype {gradient.dtype}; expected {', '.join(_FLOATS)}. Convert it first."
            )
        if self._sum is not None and (gradient.shape, gradient.dtype) != (self._like.shape, self._like.dtype):
            raise InvalidArgument(
                f"gradient has shape {gradient.shape} and dtype {gradient.dtype}, but those before it had shape "
                f"{self._like.shape} and dtype {self._like.dtype}; all of one sum have the same."
            )
