"""The step before, with its numbers where this step has those of the same parameters.

Legend: K contributions, R ranks, L numbers of all parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from failuremap.audit.steps.windows import Step

Floats = NDArray[np.float64]


def laid_out_like(step: Step, previous: Step | None) -> list[Floats]:
    """The step before, laid out like this one: its updates (one a rank of this step) and its contributions."""
    if (
        previous is None
        or not np.isfinite(previous.contributions_KL).all()
        or not np.isfinite(previous.updates_RL).all()
    ):
        return []
    rows = [previous.ranks.index(rank) if rank in previous.ranks else 0 for rank in step.ranks]
    if previous.parameters == step.parameters:
        return [previous.updates_RL[rows], previous.contributions_KL]
    place = {parameter.name: index for index, parameter in enumerate(previous.parameters)}
    source, target = [], []
    for index, parameter in enumerate(step.parameters):
        before = place.get(parameter.name)
        if before is not None:
            source.append(np.arange(previous.starts[before], previous.starts[before] + parameter.rows))
            target.append(np.arange(step.starts[index], step.starts[index] + parameter.rows))
    if not source:
        return []
    chosen, at = np.concatenate(source), np.concatenate(target)
    result = []
    for matrix in (previous.updates_RL[rows], previous.contributions_KL):
        laid = np.zeros((len(matrix), step.contributions_KL.shape[1] or int(step.starts[-1])))
        laid[:, at] = matrix[:, chosen]
        result.append(laid)
    return result
