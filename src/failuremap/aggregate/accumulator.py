"""A running sum that loses nothing: correctly rounded, whatever the order, the grouping or the number of workers."""

from __future__ import annotations

import math
from typing import Any

from failuremap.aggregate.checks import checked_counts, checked_rule
from failuremap.aggregate.exact import check_float_array
from failuremap.aggregate.exact_state import ExactSum
from failuremap.aggregate.kinds import array_kind_of, check_alike
from failuremap.aggregate.trees import check_same_places, leaves_of, rebuilt
from failuremap.errors import InvalidArgument


class Accumulator:
    """Adds gradients up exactly, and rounds once, when the result is asked for.

    The exact sum is held, so any order of `add`, and any way to `merge`, gives the same bits. Its memory is twice that
    of a float32 gradient, and twice that of a float64 one; up to four times that of float32 where the gradients of one
    parameter differ much in size, or the counts are large, so that float64 can't hold the sum.

    Args:
        rule: `weighted_mean` (each gradient is a mean over `count` units), `sum`, or `mean`.

    Example:
        >>> import numpy as np
        >>> window = Accumulator("sum")
        >>> for value in (1e16, 1.0, -1e16):
        ...     window.add({"w": np.array([value])})
        >>> window.result()
        {'w': array([1.])}
    """

    def __init__(self, rule: str = "weighted_mean") -> None:
        checked_rule(rule)
        self.rule = rule
        self.total_count = 0
        """Units behind the sum: the counts' total for `weighted_mean`, else how many gradients there are."""
        self._sums: dict[str, ExactSum] = {}
        self._tree: Any = None  # like a gradient, with templates for leaves

    def add(self, gradient: Any, count: int | None = None) -> None:
        """Adds one gradient; one with count 0 is skipped, whatever it holds.

        Args:
            gradient: A NumPy array or PyTorch CPU tensor of float16, bfloat16, float32 or float64, or a dict, list or
                tuple of them; keys, shapes and dtypes are those of the first one.
            count: Units that the gradient is a mean over; for `weighted_mean` only.

        Raises:
            InvalidArgument: Other keys, another shape or dtype; a count that is none, is missing, or has no use. The
                sum stays as it was.
        """
        (weight,) = checked_counts(None if count is None else [count], 1, self.rule)
        if not weight:
            return
        leaves = leaves_of(gradient)
        self._check(leaves, gradient, "gradient")
        for place, leaf in leaves.items():
            self._sums[place].add(*array_kind_of(leaf, place).flat(leaf), weight)
        self.total_count += weight

    def merge(self, other: Accumulator) -> None:
        """Adds another accumulator's sum to this one; the other is left as it is.

        Raises:
            InvalidArgument: The other is no accumulator, or has another rule, other keys, another shape or dtype; or it
                is this one.
        """
        if not isinstance(other, Accumulator):
            raise InvalidArgument(f"other is of type {type(other).__name__}; expected another worker's Accumulator.")
        if other is self:
            raise InvalidArgument("other is this accumulator itself; merge that of another worker.")
        if other.rule != self.rule:
            raise InvalidArgument(
                f"other.rule={other.rule!r} but this accumulator's rule is {self.rule!r}; merge sums of one rule."
            )
        if not other.total_count:
            return
        self._check(leaves_of(other._tree), other._tree, "other")
        for place, total in other._sums.items():
            self._sums[place].merge(total)
        self.total_count += other.total_count

    def result(self) -> Any:
        """Returns the sum or mean, rounded once to the gradients' dtypes; None where no unit was added."""
        if not self.total_count:
            return None
        divisor = 1 if self.rule == "sum" else self.total_count
        values = {}
        for place, like in leaves_of(self._tree).items():
            kind = array_kind_of(like, place)
            values[place] = kind.shaped(self._sums[place].rounded(divisor, kind.format_of(like)), like)
        return rebuilt(self._tree, values)

    def _check(self, leaves: dict[str, Any], tree: Any, name: str) -> None:
        """Refuses leaves that don't fit those before them; the first ones say what fits."""
        for place, leaf in leaves.items():
            check_float_array(leaf, name + place)
        if not self.total_count:
            kinds = {place: array_kind_of(leaf, place) for place, leaf in leaves.items()}
            self._tree = rebuilt(tree, {place: kind.template(leaves[place]) for place, kind in kinds.items()})
            self._sums = {place: ExactSum(math.prod(leaf.shape)) for place, leaf in leaves.items()}
            return
        model = leaves_of(self._tree)
        check_same_places(leaves, name, model, "the first gradient")
        for place, leaf in leaves.items():
            check_alike(leaf, name + place, model[place], f"the first gradient{place}")
