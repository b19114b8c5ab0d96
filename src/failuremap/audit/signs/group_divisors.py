"""Parameters that are reduced over a part of the ranks, and whether their factor is the one that this part explains."""

from __future__ import annotations

from collections.abc import Collection

from failuremap.audit.signs.crossings import all_batches_differ, crossings
from failuremap.audit.steps.story import Part
from failuremap.audit.steps.windows import Step

# relative difference up to which a factor is the one that the numbers of ranks give
_SAME = 0.01


def own_group_size(step: Step, names: Collection[str], factor: float) -> int:
    """The number of ranks that these parameters are reduced over; 0 where it doesn't explain their factor.

    It does where every rank has a batch of its own and activations cross the ranks, the parameters' gradients are
    reduced over so many of them, others' over all, and the factor is the ratio of the two: each sum is divided by its
    own number of ranks.

    Args:
        step: The step.
        names: Parameters whose update is that of most times the factor.
        factor: The factor.
    """
    everybody = set(step.ranks)
    sizes, others = set[int](), set[int]()
    for part in step.parts:
        sizes |= {len(ranks) for ranks in reduced_over(part, set(names))}
        rest = {parameter.name for parameter in step.parameters} - set(names)
        others |= {len(ranks) for ranks in reduced_over(part, rest)}
    if len(sizes) != 1 or others != {len(everybody)} or not crossings(step) or not all_batches_differ(step):
        return 0
    (size,) = sizes
    return size if 1 < size < len(everybody) and abs(factor * size / len(everybody) - 1) <= _SAME else 0


def reduced_over(part: Part, names: set[str]) -> set[tuple[int, ...]]:
    """The groups of ranks over which the gradients of some of these parameters are reduced after backward."""
    return {call.ranks for call in part.beside.calls if call.when == "after" and call.own and call.parameters & names}
