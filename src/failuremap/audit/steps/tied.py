"""Copies of one weight on several stages of a pipeline: their gradients are parts of one, and have to be added up.

Nothing in a trace says that two parameters are meant to be one weight. That they begin alike, element by element, is
what copies have in common; so have stages that were drawn from one seed.

certain      the script copied one to the other; or several modules held it in one process, and nothing else is alike
suspected    one of them embeds, or was held so
otherwise    a seed, most likely: a note

Copies that step alike are one parameter here, whose contributions are the sums of theirs.

Legend: K contributions, R ranks, P parameters, L numbers of all parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.faults import Fault, Judged
from failuremap.audit.fitting.fit import tolerance
from failuremap.audit.sentences import pipeline_words
from failuremap.audit.steps.joining import whole_weights
from failuremap.audit.steps.story import Parameter, Rank
from failuremap.catalogue.signs import Sign

if TYPE_CHECKING:
    from failuremap.audit.fitting.observe import Fitted
    from failuremap.audit.steps.windows import Step

Numbers = NDArray[np.float32]


@dataclass(frozen=True)
class Tied:
    """Parameters of different stages that begin alike."""

    names: tuple[str, ...]
    certain: bool
    """Whether they are copies of one weight, beyond doubt."""
    suspected: bool
    """Whether they may well be."""


def tied_at_start(ranks: Sequence[Rank]) -> list[Tied]:
    """The parameters of different stages that begin with the same weights, and not all of these equal."""
    parameters = {p.name: p for rank in ranks for p in rank.parameters.values() if p.stage is not None}
    if not parameters:
        return []
    alike: dict[tuple[int, bytes], list[Parameter]] = {}
    for name, numbers in _first_weights(ranks).items():
        parameter = parameters.get(name)
        if parameter is not None and np.ptp(numbers[: parameter.coordinates]) > 0:
            key = parameter.size, numbers[: parameter.coordinates].tobytes()
            alike.setdefault(key, []).append(parameter)
    groups = [sorted(same, key=lambda p: p.stage or 0) for same in alike.values() if len({p.stage for p in same}) > 1]
    one_seed = any(not _has(same, "several") for same in groups)
    return [_tied(same, ranks, one_seed=one_seed) for same in groups]


def _first_weights(ranks: Sequence[Rank]) -> dict[str, Numbers]:
    """The weights that each parameter had before the first step of it, shards put together."""
    held: dict[int, dict[str, Numbers]] = {}
    for rank in ranks:
        found = held.setdefault(rank.rank, {})
        for chunk in (chunk for part in rank.parts for chunk in part.weights if chunk.whole):
            at = 0
            for parameter in (rank.parameters[id] for id in chunk.ids):
                found.setdefault(parameter.name, chunk.numbers[at : at + parameter.rows])
                at += parameter.rows
    whole = whole_weights(held, ranks)
    return {name: numbers for weights in reversed(whole) for name, numbers in weights.items()}


def _tied(same: Sequence[Parameter], ranks: Sequence[Rank], *, one_seed: bool) -> Tied:
    shared = _has(same, "several")
    certain = (shared and not one_seed) or _copied(same, ranks)
    return Tied(tuple(parameter.name for parameter in same), certain, shared or _has(same, "embedding"))


def _has(same: Sequence[Parameter], held_as: str) -> bool:
    return any(held_as in parameter.held_as for parameter in same)


def _copied(same: Sequence[Parameter], ranks: Sequence[Rank]) -> bool:
    """Whether the script hands just as many elements from stage to stage before its first backward."""
    holders = [{rank.rank for rank in ranks if p in rank.parameters.values()} for p in same]
    calls = (call for rank in ranks for part in rank.parts[:1] for call in part.beside.calls)
    return any(
        call.own
        and call.when == "before"
        and call.function in ("broadcast", "all_reduce", "send")
        and call.elements == call.calls * same[0].size
        and all(holding & set(call.ranks) for holding in holders)
        for call in calls
    )


def add_up_tied(step: Step, copies: Sequence[Tied]) -> Step:
    """The step with copies that step alike as one parameter, the first; the others are in its `pipelines.apart`."""
    contributions_KL, altered_KL = step.contributions_KL.copy(), step.altered_KL
    updates_RL, present_RP = step.updates_RL.copy(), step.present_RP.copy()
    altered_KL = None if altered_KL is None else altered_KL.copy()
    alike, apart = [], []
    for found, places in _placed(step, copies):
        others = places[1:]
        columns = [slice(int(step.starts[p]), int(step.starts[p + 1])) for p in places]
        limit = tolerance(step.parameters[places[0]].dtype, 1)
        if not all(_same(updates_RL[:, columns[0]], updates_RL[:, other], limit) for other in columns[1:]):
            apart.append(found)
            continue
        alike.append(found)
        for p, other in zip(others, columns[1:], strict=True):
            for rows in (contributions_KL, altered_KL):
                if rows is not None:
                    rows[:, columns[0]] += rows[:, other]
                    rows[:, other] = 0.0
            updates_RL[:, other], present_RP[:, p] = 0.0, False
    assert step.pipelines is not None
    return replace(
        step,
        contributions_KL=contributions_KL,
        altered_KL=altered_KL,
        updates_RL=updates_RL,
        present_RP=present_RP,
        pipelines=replace(step.pipelines, alike=alike, apart=apart),
    )


def _placed(step: Step, copies: Sequence[Tied]) -> Iterator[tuple[Tied, list[int]]]:
    """The copies that all have an update at this step, with the places of their parameters."""
    place = {parameter.name: p for p, parameter in enumerate(step.parameters)}
    for found in copies:
        places = [place[name] for name in found.names if name in place]
        if len(places) == len(found.names) and step.present_RP[:, places].all():
            yield found, places


def _same(first: NDArray[np.float64], second: NDArray[np.float64], limit: float) -> bool:
    apart, size = ((first - second) ** 2).sum(), (first**2 + second**2).sum()
    return bool(size > 0 and apart <= limit**2 * size)


def judge_tied(judged: Judged, fitted: Fitted) -> None:
    """Judges copies of one weight that each stage steps on for itself.

    Args:
        judged: Gets a fault where they certainly are, a reason where they are suspected to be, else a note.
        fitted: The step.
    """
    pipelines = fitted.step.pipelines
    if pipelines is None:
        return
    judged.notes.append(pipeline_words.told_by_first(pipelines.groups))
    judged.unexplained += [pipeline_words.BELIEVED] if pipelines.believed else []
    judged.notes += [pipeline_words.copies_added_up(found.names) for found in pipelines.alike]
    left = np.any([o.unexplained for o in fitted.observations], axis=0)
    unexplained = {parameter.name for parameter, is_left in zip(fitted.step.parameters, left, strict=True) if is_left}
    for found in pipelines.apart:
        if found.certain and not unexplained & set(found.names):
            sentence = pipeline_words.copies_apart(found.names)
            judged.faults.append(Fault("local copies", {Sign.COPIES_APART}, sentence, parameters=list(found.names)))
        elif found.certain or found.suspected:
            judged.unexplained.append(pipeline_words.copies_suspected(found.names))
    if unlikely := [
        name for found in pipelines.apart if not (found.certain or found.suspected) for name in found.names
    ]:
        judged.notes.append(pipeline_words.copies_unlikely(unlikely))
