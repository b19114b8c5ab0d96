"""Ranks that hold parts of one model, as far as the calls of its own code show: what nothing needs to add up there.

stages   several ranks send tensors on before their backward passes end, and not all have a loss: a pipeline
experts  activations go through all_to_all, and a parameter's update is the rank's own, with the factor of the rest
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from failuremap.audit import call_words
from failuremap.audit.crossings import crosses
from failuremap.audit.faults import Judged, Main
from failuremap.audit.observe import Fitted
from failuremap.audit.windows import Step
from failuremap.catalogue.signs import Sign

# relative difference up to which a factor is the one that is asked for
_SAME = 0.01


def tell_held_apart(judged: Judged, fitted: Fitted, main: Main | None) -> None:
    """Takes back, or names, what is said of parameters that each rank may hold for itself."""
    judged.stages = _stages(fitted.step)
    local = [fault for fault in judged.faults if fault.kind == "local parameters"]
    if main is None or not local or not _routed(fitted.step):
        return
    judged.experts = set[str]().union(*(fault.parameters for fault in local))
    if _times_the_rest(fitted, main, judged.experts, 1.0):
        judged.faults = [fault for fault in judged.faults if fault not in local]
        judged.unexplained.append(call_words.experts(sorted(judged.experts)))
    elif _times_the_rest(fitted, main, judged.experts, float(len(fitted.step.ranks))):
        for fault in local:
            fault.signs.add(Sign.DIVIDED_BY_OWN_GROUP)


def _stages(step: Step) -> bool:
    senders = {
        part.rank
        for part in step.parts
        for call in part.beside.calls
        if call.function in ("send", "isend") and call.crosses and call.elements > call.calls
    }
    early = any(
        call.function in ("send", "isend") and call.when != "after" for part in step.parts for call in part.beside.calls
    )
    pairs = zip(step.keys, step.backwards, strict=True)
    having_loss = {rank for (rank, _), backward in pairs if backward.losses or backward.counts}
    return len(senders) > 1 and early and having_loss < set(step.ranks)


def _routed(step: Step) -> bool:
    """Whether units go to other ranks, and come back, through functions of autograd."""
    calls = (call for part in step.parts for call in part.beside.calls)
    return any(call.function.startswith("all_to_all") and crosses(call) for call in calls)


def _times_the_rest(fitted: Fitted, main: Main, names: Collection[str], factor: float) -> bool:
    """Whether each rank steps on its own gradients of these parameters with so many times the coefficients of the rest.

    Of a parameter whose coefficients are not known one by one it's the one that all of them share.
    """
    return all(
        bool((np.abs(own - factor * rest) <= _SAME * np.abs(factor * rest)).all())
        for own, rest in _pairs(fitted, main, names)
    )


def _pairs(
    fitted: Fitted, main: Main, names: Collection[str]
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Of each parameter on each rank the own coefficients, and those of the rest for the same contributions."""
    for observation in fitted.observations:
        mine_K = main.live_K & np.array([rank == observation.ranks[0] for rank, _ in fitted.step.keys])
        rest = main.coefficients_K[mine_K]
        for name in observation.own.keys() & names:
            yield np.full(len(rest), observation.own[name]), rest
        for cluster in observation.clusters[1:]:
            if any(fitted.step.parameters[p].name in names for p in np.flatnonzero(cluster.parameters)):
                yield cluster.solution.coefficients[mine_K], rest
