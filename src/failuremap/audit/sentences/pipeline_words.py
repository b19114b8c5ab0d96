"""The sentences of a verdict on jobs whose ranks run stages of a pipeline. Nothing here decides anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from failuremap.audit.sentences import words
from failuremap.audit.sentences.shard_words import ranks

BELIEVED = (
    "what a stage sends back is not seen to be the gradient of its input, and a factor there would not show: let the "
    "very tensor that it received require the gradient, and send that gradient as it is"
)


def told_by_first(groups: Sequence[Sequence[int]]) -> str:
    """Which ranks stand for the others."""
    shown = "; ".join(f"{ranks(group)} as rank {group[0]}" for group in groups[:4] if len(group) > 1)
    return f"ranks that run the stages of one pipeline are told as its first rank: {shown}"


def passes_outside(numbers: Sequence[int]) -> str:
    """A pipeline's ranks that also go backward on their own."""
    return (
        f"{ranks(numbers)} are stages of one pipeline and also go backward outside its schedule, so their passes "
        "cannot be put together"
    )


def passes_differ(numbers: Sequence[int], counts: Mapping[int, int]) -> str:
    """Stages that went backward on other micro-batches."""
    shown = ", ".join(f"{count} on stage {stage}" for stage, count in counts.items())
    return (
        f"{ranks(numbers)} are stages of one pipeline, and the step of each takes passes of other micro-batches "
        f"({shown}), so they cannot be put together"
    )


def copies_added_up(names: Sequence[str]) -> str:
    """Copies of one weight that step on the sum of their gradients."""
    return f"{words.listed(names)} begin alike and step alike: taken for copies of one weight"


def copies_apart(names: Sequence[str]) -> str:
    """Copies of one weight, each of which steps on its own gradient."""
    return (
        f"Stages of one pipeline hold copies of one weight, and each steps on its own gradient, not on their sum: "
        f"{words.listed(names)}."
    )


def copies_suspected(names: Sequence[str]) -> str:
    """Parameters that may be copies of one weight."""
    return (
        f"{words.listed(names)} begin with the same weights and step apart: if they are meant to be one weight, the "
        "gradients of its copies are not added up (tied-copies-not-summed); if not, let them begin unlike"
    )


def copies_unlikely(names: Sequence[str]) -> str:
    """Parameters that begin alike, by one seed or because they are one weight."""
    return (
        f"{words.listed(names)} begin with the same weights, as stages do that are drawn from one seed; if they are "
        "meant to be one weight, the gradients of its copies are not added up (tied-copies-not-summed)"
    )


def norms_of_stages(factors: Mapping[int, float]) -> str:
    """Each stage clips by the norm of its own parameters."""
    shown = ", ".join(f"{words.number(factor)} on rank {rank}" for rank, factor in list(factors.items())[:4])
    return f"Each stage clips its gradients by a norm of its own: factors {shown}."
