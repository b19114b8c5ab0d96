"""`exact_sum`: the nearest number to the exact sum, whatever the order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from failuremap.aggregate.exact_blocks import nearest_sum
from failuremap.aggregate.exact_formats import FORMATS
from failuremap.aggregate.kinds import array_kind_of, check_alike
from failuremap.errors import InvalidArgument

_ArrayT = TypeVar("_ArrayT")


def exact_sum(contributions: Sequence[_ArrayT], weights: Sequence[int] | None = None, divisor: int = 1) -> _ArrayT:
    """Returns sum over k of weights[k] * contributions[k] / divisor, rounded once, to the nearest.

    The result is that of exact arithmetic: the same bits for any order and grouping of the contributions. Infinity
    and NaN give what IEEE arithmetic gives; a sum that only passes beyond the largest number on its way stays finite.
    An exact 0 is +0.0, and there is one NaN.

    Args:
        contributions: K NumPy arrays or PyTorch CPU tensors of one shape and one dtype: float16, bfloat16, float32 or
            float64.
        weights: Whole numbers of 0 or more, one each; ones where not given. With 0 a contribution is skipped,
            whatever it holds.
        divisor: A whole number of 1 or more.

    Returns:
        An array or tensor of the contributions' shape and dtype; zeros where all weights are 0.

    Raises:
        InvalidArgument: Shapes, dtypes or lengths differ; a weight or the divisor is no such number.

    Example:
        >>> import numpy as np
        >>> exact_sum([np.array([1e16]), np.array([1.0]), np.array([-1e16])])
        array([1.])

    Source:
        Exponent-range certificate over float64; elsewhere TwoSum with fractions for what is left. It needs IEEE
        arithmetic: where denormals are flushed to zero (torch.set_flush_denormal) they are zeros here, too.
    """
    ks = _checked(contributions, weights, divisor)
    kind = array_kind_of(contributions[0], "contributions[0]")
    rows = [kind.flat(array)[0] for array, weight in zip(contributions, ks, strict=True) if weight]
    form = kind.format_of(contributions[0])
    if rows:
        values = nearest_sum(rows, [weight for weight in ks if weight], divisor, form)
    else:
        values = np.zeros(kind.flat(contributions[0])[0].size, form.storage)
    result: _ArrayT = kind.shaped(values, contributions[0])
    return result


def _checked(contributions: Any, weights: Any, divisor: Any) -> list[int]:
    """Returns the weights."""
    if not isinstance(contributions, list | tuple) or not contributions:
        raise InvalidArgument(
            f"contributions is {'empty' if isinstance(contributions, list | tuple) else type(contributions).__name__}; "
            "expected a list of one array or more."
        )
    ks = [1] * len(contributions) if weights is None else list(weights)
    if len(ks) != len(contributions):
        raise InvalidArgument(
            f"len(weights)={len(ks)} but there are {len(contributions)} contributions; give one weight for each."
        )
    for index, weight in enumerate(ks):
        _check_whole(f"weights[{index}]", weight, 0)
    _check_whole("divisor", divisor, 1)
    for index, array in enumerate(contributions):
        check_float_array(array, f"contributions[{index}]")
        check_alike(array, f"contributions[{index}]", contributions[0], "contributions[0]")
    return [int(weight) for weight in ks]


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidArgument(f"{name}={value!r}; expected a whole number of {least} or more.")


def check_float_array(array: Any, place: str) -> None:
    """Refuses what is no array or tensor of floating-point numbers."""
    kind = array_kind_of(array, place)
    kind.check(array, place)
    dtype = kind.facts(array)["dtype"]
    if dtype not in FORMATS:
        raise InvalidArgument(f"{place} has dtype {dtype}; expected {', '.join(FORMATS)}. Convert it first.")
