"""The sentences of a verdict on jobs whose parameters, or gradients, are spread over ranks. Nothing here decides."""

from __future__ import annotations

from collections.abc import Sequence


def ranks(numbers: Sequence[int]) -> str:
    """'rank 1', 'ranks 0 and 1', 'ranks 0, 1, 2 and 3'."""
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    return f"ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


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
