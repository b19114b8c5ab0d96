"""The right rules, applied: lists, arrays, tensors and trees of them, combined as a contract says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from failuremap.aggregate import plain
from failuremap.aggregate.checks import checked_rule, tensor_advice
from failuremap.aggregate.kinds import check_alike, kind_of
from failuremap.aggregate.missing import check_policies, finite_only, weights_of
from failuremap.aggregate.trees import check_same_places, is_array, is_tensor, is_vector, leaves_of, rebuilt
from failuremap.errors import InvalidArgument

if TYPE_CHECKING:
    import numpy as np

RuleName = Literal["weighted_mean", "sum", "mean"]
Missing = Literal["raise", "renormalize"]
Nonfinite = Literal["propagate", "raise", "exclude"]


@overload
def aggregate(
    contributions: np.ndarray[Any, Any] | Sequence[np.ndarray[Any, Any] | None],
    counts: Sequence[Any] | np.ndarray[Any, Any] | None = None,
    *,
    rule: RuleName = "weighted_mean",
    missing: Missing = "raise",
    nonfinite: Nonfinite = "propagate",
) -> np.ndarray[Any, Any] | None: ...


@overload
def aggregate(
    contributions: Sequence[Sequence[plain.Number]],
    counts: Sequence[Any] | np.ndarray[Any, Any] | None = None,
    *,
    rule: RuleName = "weighted_mean",
    missing: Missing = "raise",
    nonfinite: Nonfinite = "propagate",
) -> list[plain.Number]: ...


@overload
def aggregate(
    contributions: Any,
    counts: Any = None,
    *,
    rule: RuleName = "weighted_mean",
    missing: Missing = "raise",
    nonfinite: Nonfinite = "propagate",
) -> Any: ...


def aggregate(
    contributions: Any,
    counts: Any = None,
    *,
    rule: RuleName = "weighted_mean",
    missing: Missing = "raise",
    nonfinite: Nonfinite = "propagate",
) -> Any:
    """Combines gradients by a stated rule: update = sum over k of c_k * g_k.

    `weighted_mean` has c_k = n_k/N: the mean over all units, of gradients that are means over n_k units each.
    `sum` has c_k = 1: disjoint parts of one gradient are added. `mean` has c_k = 1/K.
    A contribution with count 0 is skipped, whatever it holds: NaN, or nothing at all. Where nothing is left to
    combine the result is "no update", not zeros, which an optimizer would step on.

    The result is that of exact arithmetic, rounded once: the order, the memory layout and the kind of the
    contributions don't change a bit of it.

    Args:
        contributions: K gradients. Each is a list of numbers, a NumPy array, a PyTorch tensor on the CPU, or a dict,
            list or tuple of them, however deep, such as a whole model's; floats of 16, 32 or 64 bits, bfloat16, or
            integers, which become float64. Of one array or tensor the first axis is K.
        counts: Units behind each gradient, 0 or more, for `weighted_mean` only.
        rule: `weighted_mean`, `sum` or `mean`.
        missing: What None in the place of a contribution does, which says that it did not arrive: `raise`, or
            `renormalize`: the mean is over the others and their counts. A sum can't do without a part.
        nonfinite: What a contribution does that holds infinity or NaN anywhere: `propagate` them, `raise`, or
            `exclude`: the whole contribution and its count are left out, as if missing. Not for a sum.

    Returns:
        What one contribution is: arrays and tensors of their dtype; None where nothing is left. For lists of numbers a
        list: a sum of ints is an int, Fractions stay exact, all else is float; `[]` where nothing is left.

    Raises:
        InvalidArgument: Shapes, dtypes, devices or keys differ, a count is no count, counts are missing, or not used;
            what `missing` and `nonfinite` refuse.

    Example:
        >>> aggregate([[1, 2], [3, 4]], counts=[1, 3])
        [2.5, 3.5]
        >>> aggregate([[1, 2], [3, 4]], rule="sum")
        [4, 6]
        >>> aggregate([{"w": [1.0], "b": [4.0]}, {"w": [3.0], "b": [8.0]}], counts=[1, 3])
        {'w': [2.5], 'b': [7.0]}
        >>> aggregate([[1.0], None, [4.0]], counts=[1, 5, 2], missing="renormalize")
        [3.0]
        >>> aggregate([[1.0, 2.0], [float("nan"), 5.0]], counts=[1, 1], nonfinite="exclude")
        [1.0, 2.0]

    Source:
        Contracts of FA-99241 (weighted mean) and FA-99246 (sum).
    """
    checked_rule(rule)
    check_policies(rule, missing, nonfinite)
    parts = _parts(contributions)
    weights = weights_of(parts, counts, rule, missing)
    leaves = {k: leaves_of(part) for k, part in enumerate(parts) if weights[k]}
    _check(leaves)
    kept = list(leaves) if nonfinite == "propagate" else finite_only(leaves, nonfinite)
    if not kept:
        return _no_update(contributions)
    combined = {}
    for place, leaf in leaves[kept[0]].items():
        combine = kind_of(leaf, place).combine
        combined[place] = combine([leaves[k][place] for k in kept], [weights[k] for k in kept], rule)
    return rebuilt(parts[kept[0]], combined)


def _parts(contributions: Any) -> Sequence[Any]:
    if is_array(contributions) or is_tensor(contributions):
        if not contributions.ndim:
            raise InvalidArgument("contributions has no axis; its first one is that of the contributions.")
        return [contributions[k, ...] for k in range(len(contributions))]
    if isinstance(contributions, list | tuple):
        return contributions
    raise InvalidArgument(
        f"contributions is of type {type(contributions).__name__}; expected a list with one gradient for each "
        f"contribution, or an array whose first axis is theirs.{tensor_advice(contributions)}"
    )


def _no_update(contributions: Any) -> list[plain.Number] | None:
    """Returns [] where lists of numbers were combined, also none of them; else None."""
    if is_array(contributions) or is_tensor(contributions):
        return None
    there = [part for part in contributions if part is not None]
    return [] if all(map(is_vector, there)) and (there or not contributions) else None


def _check(leaves: Mapping[int, Mapping[str, Any]]) -> None:
    """Refuses contributions that can't be added up: other keys, kinds, shapes, dtypes or devices than the first."""
    for k, places in leaves.items():
        first = next(iter(leaves))
        check_same_places(places, f"contributions[{k}]", leaves[first], f"contributions[{first}]")
        for place, leaf in places.items():
            check_alike(leaf, f"contributions[{k}]{place}", leaves[first][place], f"contributions[{first}]{place}")
