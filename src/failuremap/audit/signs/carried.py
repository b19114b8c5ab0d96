"""The step before in this update: a gradient that was not zeroed, or momentum that the script writes into .grad itself.

What was not zeroed goes through the reduction as the rank's own gradient does: its factor is what the coefficients of
one micro-batch add up to over the ranks, or 1 where it is added behind the reduction. Another factor below 1 is the
script's own, if it is the same at every step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from failuremap.audit.faults import Fault, Judged
from failuremap.audit.fitting.observe import Carried, Fitted
from failuremap.audit.sentences import step_words, words
from failuremap.catalogue.signs import Sign

# relative difference up to which factors count as the same
_SAME = 0.01


def judge_carried(judged: Judged, fitted: Fitted) -> None:
    """Judges what an update holds of the step before it."""
    carried = next((o.carried for o in fitted.observations if o.carried is not None), None)
    if carried is None:
        return
    if carried.current and 0 < carried.factor < 1 - _SAME and not _is_reduced(carried, fitted):
        judged.momentum = carried.factor
        return
    touched = [fitted.step.parameters[p].name for p in np.flatnonzero(carried.parameters)]
    sign = Sign.PREVIOUS_UPDATE_ADDED if carried.current else Sign.PREVIOUS_UPDATE_ONLY
    sentence = words.carried(carried.current, carried.factor)
    judged.faults.append(Fault(str(sign), {sign}, sentence, parameters=touched))


def _is_reduced(carried: Carried, fitted: Fitted) -> bool:
    """Whether the step before has the factor of a gradient that all ranks hold."""
    sums: defaultdict[int, float] = defaultdict(float)
    for (_, micro_batch), coefficient in zip(fitted.step.keys, carried.coefficients_K.tolist(), strict=True):
        sums[micro_batch] += coefficient
    return any(abs(carried.factor - total) <= _SAME * abs(total) for total in sums.values())


def judge_momentum(judged: Sequence[Judged]) -> tuple[list[str], list[str]]:
    """Reasons why a job cannot be called right for what it adds of the step before, and notes where it may."""
    factors = [step.momentum for step in judged if step.momentum is not None]
    if not factors:
        return [], []
    least, most = min(factors), max(factors)
    if most - least <= _SAME * most and 2 * len(factors) > len(judged):
        return [], [step_words.momentum(factors[0])]
    return [step_words.momentum_at_times(least, most, len(factors), len(judged))], []
