"""Ranks that hold parts of one model, as far as the calls of its own code show: what nothing needs to add up there.

strangers  groups of ranks that have no parameter in common
stages     several ranks send tensors on before their backward passes end, and not all have a loss: a pipeline
dealt out  the same by other functions of autograd, with weights that were not the same on the ranks from the start
experts    activations go through all_to_all, and a parameter's update is the rank's own, or that of a group of ranks,
           with the factor of the rest
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.faults import Judged, Main
from failuremap.audit.fitting.observe import Fitted
from failuremap.audit.sentences import call_words
from failuremap.audit.signs.crossings import all_batches_differ, crosses, crossings
from failuremap.audit.signs.group_divisors import reduced_over
from failuremap.audit.steps.windows import Step
from failuremap.catalogue.signs import Sign

# relative difference up to which a factor is the one that is asked for
_SAME = 0.01


def tell_held_apart(judged: Judged, fitted: Fitted, main: Main | None) -> None:
    """Takes back, or names, what is said of parameters that each rank may hold for itself."""
    judged.stages = _stages(fitted.step)
    groups = _strangers(fitted.step)
    if not judged.stages and len(groups) > 1 and not _exchange(fitted, groups):
        judged.unmeasured.append(call_words.strangers(groups))
    if main is None:
        return
    if _routed(fitted.step):
        _tell_alone(judged, fitted, main)
        _tell_copies(judged, fitted, main)
    elif crossings(fitted.step):
        names = set[str]().union(*(fault.parameters for fault in judged.faults if fault.kind == "local parameters"))
        judged.own_alone = names if _times_the_rest(fitted, main, names, 1.0) else set()


def _tell_alone(judged: Judged, fitted: Fitted, main: Main) -> None:
    """Of experts that each rank holds for itself."""
    local = [fault for fault in judged.faults if fault.kind == "local parameters"]
    if not local:
        return
    judged.experts = set[str]().union(*(fault.parameters for fault in local))
    if _times_the_rest(fitted, main, judged.experts, 1.0):
        judged.faults = [fault for fault in judged.faults if fault not in local]
        judged.unexplained.append(call_words.experts(sorted(judged.experts)))
    elif _times_the_rest(fitted, main, judged.experts, float(len(fitted.step.ranks))):
        for fault in local:
            fault.signs.add(Sign.DIVIDED_BY_OWN_GROUP)


def _tell_copies(judged: Judged, fitted: Fitted, main: Main) -> None:
    """Of experts that groups of ranks hold copies of: their gradients are reduced over each of these groups."""
    others = [fault for fault in judged.faults if fault.kind == "other parameters"]
    names = set[str]().union(*(fault.parameters for fault in others))
    found = {part.rank: reduced_over(part, names) for part in fitted.step.parts}
    sizes = {len(group) for groups in found.values() for group in groups}
    if not names or len(sizes) != 1 or any(len(groups) != 1 for groups in found.values()):
        return
    (size,), count = sizes, len(fitted.step.ranks)
    holders = {rank: next(iter(groups)) for rank, groups in found.items()}
    if _of_holders(fitted, main, names, holders, 1.0):
        judged.experts = names
        judged.faults = [fault for fault in judged.faults if fault not in others]
        judged.unexplained.append(call_words.held_by_groups(sorted(names)))
    elif all_batches_differ(fitted.step) and _of_holders(fitted, main, names, holders, count / size):
        judged.experts = names
        for fault in others:
            fault.signs.add(Sign.DIVIDED_BY_OWN_GROUP)
            fault.sentence = call_words.own_group(sorted(names), count / size, size, count)


def _of_holders(
    fitted: Fitted, main: Main, names: Collection[str], holders: Mapping[int, Collection[int]], factor: float
) -> bool:
    """Whether the updates of these parameters hold what their holders have, and no more, times a factor of the rest."""
    told = []
    for observation in fitted.observations:
        ranks = holders[observation.ranks[0]]
        held_K = np.array([rank in ranks for rank, _ in fitted.step.keys])
        expected = np.where(held_K, factor * main.coefficients_K, 0.0)
        limit = _SAME * np.abs(expected).max(initial=0.0)
        told += [
            set(observation.ranks) <= set(ranks)
            and bool((np.abs(cluster.solution.coefficients - expected) <= limit).all())
            for cluster in observation.clusters[1:]
            if any(fitted.step.parameters[p].name in names for p in np.flatnonzero(cluster.parameters))
        ]
    return bool(told) and all(told)


def _strangers(step: Step) -> list[list[int]]:
    """The ranks by what they step on: ranks that have a parameter in common are together."""
    groups: list[tuple[set[int], NDArray[np.bool_]]] = []
    for rank, present_P in zip(step.ranks, step.present_RP, strict=True):
        if not present_P.any():
            continue
        joined = [group for group in groups if bool((group[1] & present_P).any())]
        groups = [group for group in groups if not (group[1] & present_P).any()]
        members = {rank}.union(*(ranks for ranks, _ in joined))
        groups.append((members, np.any([present_P, *(present for _, present in joined)], axis=0)))
    return sorted(sorted(ranks) for ranks, _ in groups)


def _exchange(fitted: Fitted, groups: list[list[int]]) -> bool:
    """Whether an update holds contributions of another group: parameters of one model that are dealt out to ranks."""
    rank_K = np.array([rank for rank, _ in fitted.step.keys])
    for observation in fitted.observations:
        own = next((group for group in groups if observation.ranks[0] in group), [])
        for cluster in observation.clusters:
            sizes = np.abs(cluster.solution.coefficients)
            if (sizes[~np.isin(rank_K, own)] > _SAME * sizes.max(initial=0.0)).any():
                return True
    return False


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
