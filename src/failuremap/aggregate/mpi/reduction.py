"""`allreduce`: the gradients of all ranks of a communicator, combined by a rule.

Legend: D elements, R ranks, W elements of a rank's part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from failuremap.aggregate.checks import checked_rule, fault_of, tensor_advice
from failuremap.aggregate.exact import exact_sum
from failuremap.aggregate.exact_terms import Array
from failuremap.aggregate.mpi.agreement import Leaf, Said, agree, check_comm
from failuremap.aggregate.trees import leaves_of, rebuilt
from failuremap.errors import InvalidArgument

_FLOATS = ("float16", "float32", "float64")


def allreduce(
    comm: Any, gradient: Any, count: int | None = None, rule: str = "weighted_mean", *, exact: bool = False
) -> Any:
    """Returns all ranks' gradients combined by a rule, the same on each; all ranks of the communicator call it.

    `weighted_mean` has c_k = n_k/N: the mean over all units, of gradients that are means over n_k units each.
    `sum` has c_k = 1: disjoint parts of one gradient are added. `mean` has c_k = 1/R.
    A rank with count 0 contributes nothing, whatever it holds; it may give None.

    Args:
        comm: Whose ranks take part, such as `MPI.COMM_WORLD`.
        gradient: This rank's gradient: a NumPy array of float16, float32 or float64, or a dict, list or tuple of them,
            however deep. Keys, shapes and dtypes are the same on all ranks.
        count: Units (tokens, examples) behind this rank's gradient, 0 or more, for `weighted_mean` only.
        rule: `weighted_mean`, `sum` or `mean`.
        exact: Makes each element the nearest number to the exact result, in whatever order and on however many ranks
            the gradients lie. Without it they are added by `Allreduce` in float32 (float64 for float64), in an order
            that is the MPI library's.

    Returns:
        What a gradient is, of its dtypes; None where no rank has a unit: there is no update.

    Raises:
        InvalidArgument: The gradient, count or rule can't be used, or ranks differ in them: the same on all ranks.
    """
    check_comm(comm)
    everyone = agree(comm, _said(gradient, count, rule, exact))
    counts = [said.count for said in everyone]
    if not any(counts):
        return None
    model = next(said for said in everyone if said.count)
    own = leaves_of(gradient) if counts[comm.rank] else {}
    divisor = 1 if rule == "sum" else sum(counts)
    combined: dict[str, Array] = {}
    for dtype in sorted({leaf.dtype for leaf in model.leaves.values()}):
        shapes = {place: leaf.shape for place, leaf in model.leaves.items() if leaf.dtype == dtype}
        values = _flat([own.get(place) for place in shapes], list(shapes.values()), dtype)
        reduced = _exact(comm, values, counts, divisor) if exact else _summed(comm, values, counts[comm.rank], divisor)
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes.values()])
        pieces = np.split(reduced, ends[:-1])
        combined |= {place: piece.reshape(shapes[place]) for place, piece in zip(shapes, pieces, strict=True)}
    return rebuilt(model.tree, combined)


def _said(gradient: Any, count: Any, rule: Any, exact: Any) -> Said:
    """Returns what this rank says about its call, its own mistakes included."""
    try:
        checked_rule(rule)
        if not isinstance(exact, bool):
            raise InvalidArgument(f"exact={exact!r} is neither True nor False.")
        weight = _checked_count(count, rule)
        arrays = leaves_of(gradient) if weight else {}
        for place, array in arrays.items():
            _check_array(array, f"gradient{place}")
    except InvalidArgument as refused:
        return Said("allreduce", problem=str(refused))
    leaves = {place: Leaf(array.dtype.name, array.shape) for place, array in arrays.items()}
    tree = rebuilt(gradient, dict.fromkeys(leaves, np.empty(0))) if weight else None
    return Said("allreduce", rule, exact, weight, leaves, tree)


def _flat(arrays: Sequence[Array | None], shapes: Sequence[tuple[int, ...]], dtype: str) -> Array:
    """Returns the elements of all arrays, one behind the other; zeros for those that are not there."""
    rows = [
        np.zeros(int(np.prod(shape)), dtype) if array is None else np.asarray(array, dtype).reshape(-1)
        for array, shape in zip(arrays, shapes, strict=True)
    ]
    return np.concatenate(rows)


def _summed(comm: Any, values_D: Array, weight: int, divisor: int) -> Array:
    """Adds up on the wire and divides once."""
    wide = np.promote_types(values_D.dtype, np.float32)
    # Infinity and NaN are results like others here; which of them is an error is for the caller to say.
    with np.errstate(all="ignore"):
        total = values_D.astype(wide) * wide.type(weight)
        comm.Allreduce(MPI.IN_PLACE, total, MPI.SUM)
        result: Array = (total / wide.type(divisor)).astype(values_D.dtype)
    return result


def _exact(comm: Any, values_D: Array, counts: Sequence[int], divisor: int) -> Array:
    """Gives each rank its part of every gradient to add up, and all ranks the results."""
    size = comm.size
    width = -(-values_D.size // size)
    sent = np.zeros(size * width, values_D.dtype)
    sent[: values_D.size] = values_D
    parts = np.empty((size, width), values_D.dtype)
    comm.Alltoall(_bits(sent), _bits(parts))
    own = exact_sum(list(parts), counts, divisor)
    whole = np.empty(size * width, values_D.dtype)
    comm.Allgather(_bits(own), _bits(whole))
    return whole[: values_D.size]


def _bits(values: Array) -> Array:
    """Returns the same memory as whole numbers, of which MPI has all sizes; it has no float16."""
    return values.view(f"u{values.itemsize}")


def _check_array(array: Any, place: str) -> None:
    if not isinstance(array, np.ndarray):
        raise InvalidArgument(
            f"{place} is of type {type(array).__name__}; expected a NumPy array.{tensor_advice(array)}"
        )
    if array.dtype.name not in _FLOATS:
        raise InvalidArgument(f"{place} has dtype {array.dtype}; expected {', '.join(_FLOATS)}. Convert it first.")
    if isinstance(array, np.ma.MaskedArray):
        raise InvalidArgument(f"{place} is a masked array; say what the masked values are, such as with .filled(0).")


def _checked_count(count: Any, rule: str) -> int:
    if rule != "weighted_mean":
        if count is not None:
            raise InvalidArgument(
                f"count={count!r} is given but rule={rule!r} doesn't use it; leave it out, or use rule='weighted_mean'."
            )
        return 1
    if count is None:
        raise InvalidArgument(
            "count=None: rule='weighted_mean' needs the number of units behind each rank's gradient; give count, or "
            "another rule: sum or mean."
        )
    if fault := fault_of(count):
        raise InvalidArgument(
            f"count={count!r} is {fault}; a count is how many examples the gradient is a mean over, so 0 or more."
        )
    return int(count)
