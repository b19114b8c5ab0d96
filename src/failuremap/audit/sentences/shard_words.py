"""The sentences of a verdict on jobs whose parameters, or gradients, are spread over ranks. Nothing here decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from failuremap.audit.sentences import words

if TYPE_CHECKING:
    from failuremap.audit.extent import Extent
    from failuremap.audit.steps.joining import Shard


def ranks(numbers: Sequence[int]) -> str:
    """'rank 1', 'ranks 0 and 1', 'ranks 0, 1, 2 and 3'."""
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    return f"ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def unwatched(types: Sequence[str]) -> str:
    """Parameters, or gradients, of types that capture does not read."""
    return f"parameters or gradients of type {', '.join(types)} are not watched"


def shard_missing(name: str, absent: Sequence[int]) -> str:
    """A whole update that lacks a shard."""
    return f"the update of {name} is not whole: {ranks(absent)} had no gradient for its shard"


def passes_differ(numbers: Sequence[int], counts: Sequence[int]) -> str:
    """One model, and other numbers of backward passes on its ranks."""
    return (
        f"{ranks(numbers)} run one model together and went backward {', '.join(map(str, counts))} times before the "
        "step, so their passes cannot be put together"
    )


def targets_differ(numbers: Sequence[int]) -> str:
    """One model, and losses of different targets."""
    return (
        f"{ranks(numbers)} run one model together and their losses are of different targets: whether each reads a part "
        "of the batch, or another batch by mistake, cannot be told; give all of them the same targets"
    )


def updates_differ(name: str, numbers: Sequence[int]) -> str:
    """One model, and a parameter that its ranks step on differently."""
    return f"{ranks(numbers)} run one model together and step on different updates of {name}"


def partials_alone(names: Sequence[str], among: Extent) -> str:
    """Ranks of one model, each with its own part of a gradient."""
    return (
        f"On {among.of(len(names))} each rank steps on its own part of the gradient; the parts of the "
        f"ranks that run one model together are never added up: {words.listed(names)}."
    )


def shards_scaled(factors: dict[int, float]) -> str:
    """Each rank's shard is the right one times a factor of its own."""
    shown = ", ".join(f"{factor:.3g} on rank {rank}" for rank, factor in sorted(factors.items())[:4])
    return f"Each rank scales its own shard of the update by another factor: relative to the largest, {shown}."


def shards_apart(coefficients: dict[int, Any]) -> str:
    """Each rank's shard is another combination of the gradients."""
    (first, one), (second, other) = sorted(coefficients.items())[:2]
    shown = f"{words.coefficients(one)} on rank {first}, {words.coefficients(other)} on rank {second}"
    return f"The shards of the update are different combinations of the gradients: coefficients {shown}."


def shards_unexplained(shards: Sequence[Shard], names: Sequence[str]) -> str:
    """Some shards hold nothing that the gradients give at their place, and the others do."""
    first = min(shards, key=lambda shard: (shard.rank, shard.parameter))
    where = " x ".join(f"{start} to {stop - 1}" for start, stop in first.span)
    holders = ranks(sorted({shard.rank for shard in shards}))
    count = len({shard.parameter for shard in shards})
    return (
        f"on {holders} the shards of {count} parameters are no combination of the gradients at their place, first "
        f"{names[first.parameter]} at {where}; the shards of the other ranks are: do shards and gradients lie at the "
        "same offsets?"
    )
