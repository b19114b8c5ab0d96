"""Whether an objective computes the loss of the job, as far as both tell what it is.

A difference of gradients says nothing of the job where the objective is another loss: it lacks a term, say, or masks
other tokens. A backward pass starts at a number; where the audit has read what one unit weighs in it, that weight times
the objective's sum of losses is the same number.
"""

from __future__ import annotations

from collections.abc import Sequence

from failuremap.audit.compared.reference import Computed
from failuremap.audit.faults import Judged
from failuremap.audit.steps.windows import Step

# relative difference that a loss in bfloat16 may have, and one in float32
_SAME, _FINE = 0.01, 1e-4


def times_the_job(step: Step, owed: Sequence[Computed], captured: Judged) -> float | None:
    """The factor between the objective's loss and the job's that is farthest from 1; None where it is not known.

    Args:
        step: The step as it was captured.
        owed: What the reference computed for it.
        captured: What the audit alone says of the step.
    """
    numbers = {(key[0], backward.id): key for key, backward in zip(step.keys, step.backwards, strict=True)}
    weights = {(cell.rank, cell.micro_batch): cell.loss_weight for cell in captured.cells}
    found = [_times(one, {numbers[m]: weights.get(numbers[m]) for m in one.members if m in numbers}) for one in owed]
    known = [times for times in found if times is not None]
    return max(known, key=lambda times: abs(times - 1), default=None)


def is_other(times: float, *, none_agrees: bool) -> bool:
    """Whether an objective is another loss than the job's.

    At the start of training losses are much alike, whatever they are of; where no parameter agrees, less is enough.
    """
    return abs(times - 1) > (_FINE if none_agrees else _SAME)


def _times(one: Computed, weights: dict[tuple[int, int], float | None]) -> float | None:
    known = {weight for weight in weights.values() if weight}
    if not one.job_losses or not known or None in weights.values() or max(known) > (1 + _SAME) * min(known):
        return None
    job = sum(one.job_losses) / (sum(known) / len(known))
    whole = len({rank for rank, _ in one.members})  # where each rank of a model has all of the loss
    return min((one.loss * size / job for size in {1, whole}), key=lambda times: abs(times - 1)) if job else None
