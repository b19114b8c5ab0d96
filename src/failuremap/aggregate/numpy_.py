"""Aggregation on NumPy arrays: accumulated in float64, rounded once to the dtype that came in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from failuremap.aggregate.checks import tensor_advice
from failuremap.errors import InvalidArgument

# A sum may leave float64's range on the way to a result that lies within it; it is then formed this much smaller.
_HEADROOM = 2.0**-100
_FLOATS = ("float16", "float32", "float64")


def combine(contributions: Sequence[Any], counts: Sequence[int], rule: str) -> np.ndarray[Any, Any] | None:
    """Combines arrays by a rule; None where no contribution has a unit."""
    counted = [k for k, count in enumerate(counts) if count]
    if not counted:
        return None
    for k in counted:
        _check_array(contributions, k, counted[0])
    arrays, weights = [contributions[k] for k in counted], [counts[k] for k in counted]
    divisor = 1 if rule == "sum" else sum(counts)
    # Infinity and NaN are results like others here; which of them is an error is for the caller to say.
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        total = _combined(arrays, weights, divisor)
        if not np.isfinite(total).all():
            scaled = _combined(arrays, weights, divisor, scale=_HEADROOM) / _HEADROOM
            total = np.where(np.isfinite(total), total, scaled)
        return np.asarray(total, _result_type(arrays[0].dtype))


def _combined(arrays: Sequence[Any], weights: Sequence[int], divisor: int, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """Adds weight * array up in float64 and divides once; both times `scale`, a power of two."""
    total = np.zeros(arrays[0].shape, np.float64)
    for array, weight in zip(arrays, weights, strict=True):
        total += array.astype(np.float64) * scale * float(weight)
    return total / float(divisor)


def _result_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.name in _FLOATS else np.dtype(np.float64)


def _check_array(contributions: Sequence[Any], k: int, first: int) -> None:
    array, model = contributions[k], contributions[first]
    if not isinstance(array, np.ndarray | np.generic):
        raise InvalidArgument(
            f"contributions[{k}] is of type {type(array).__name__} but others are NumPy arrays; give one kind."
            f"{tensor_advice(array)}"
        )
    if array.dtype.name not in _FLOATS and not np.issubdtype(array.dtype, np.integer):
        raise InvalidArgument(
            f"contributions[{k}] has dtype {array.dtype}; expected {', '.join(_FLOATS)} or integers. "
            "Convert it first, such as with .astype('float32')."
        )
    if array.dtype != model.dtype:
        raise InvalidArgument(
            f"contributions[{k}] has dtype {array.dtype} but contributions[{first}] has dtype {model.dtype}; "
            "every contribution to one parameter has the same dtype."
        )
    if array.shape != model.shape:
        raise InvalidArgument(
            f"contributions[{k}] has shape {array.shape} but contributions[{first}] has shape {model.shape}; "
            "every contribution to one parameter has the same shape."
        )
