"""Parameters that follow another rule than most: which, and what they have in common.

Legend: K contributions, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.faults import Fault, Judged, Main
from failuremap.audit.fitting import patterns
from failuremap.audit.fitting.observe import Fitted
from failuremap.audit.sentences import words
from failuremap.audit.signs.scaled import judge_scaled
from failuremap.audit.weighing.shares import cells
from failuremap.catalogue.signs import Sign

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass
class _Others:
    """The names of parameters with a rule of their own."""

    local: set[str] = field(default_factory=set)
    """Each rank steps on its own gradient."""
    scaled: dict[str, float] = field(default_factory=dict)
    """They follow the main rule times a factor."""
    other: set[str] = field(default_factory=set)
    """They follow neither."""


def judge_other_parameters(judged: Judged, fitted: Fitted, main: Main | None, signs: set[Sign]) -> None:
    """Judges parameters that follow another rule than most; nothing where most follow none.

    Args:
        judged: Gets a fault, or a note, for each kind.
        fitted: The step.
        main: The rule of most parameters.
        signs: What else is known of the job.
    """
    if main is None:
        return
    found = _sorted(fitted, main)
    among, told = fitted.step.extent, signs | {Sign.SOME_PARAMETERS}
    alone = found.local | found.other
    if alone and _unused_in_last(fitted, alone):
        told |= {Sign.UNUSED_IN_LAST_MICRO_BATCH} | ({Sign.OWN_RANK_ONLY} if found.local else set())
        sentence = words.unused_in_last(sorted(alone), among)
        judged.faults.append(Fault("local, unused", told, sentence, parameters=sorted(alone)))
    else:
        _judge_alone(judged, fitted, main, found, told)
    judge_scaled(judged, found.scaled, fitted)


def _judge_alone(judged: Judged, fitted: Fitted, main: Main, found: _Others, told: set[Sign]) -> None:
    among = fitted.step.extent
    if found.local:
        local, sentence = sorted(found.local), words.local_parameters(sorted(found.local), among)
        own, shown = told | {Sign.OWN_RANK_ONLY}, cells(fitted, main)
        judged.faults.append(Fault("local parameters", own, sentence, parameters=local, cells=shown))
    if found.other - found.local:
        other = sorted(found.other)
        judged.faults.append(Fault("other parameters", told, words.other_parameters(other, among), parameters=other))


def _sorted(fitted: Fitted, main: Main) -> _Others:
    names, found = [parameter.name for parameter in fitted.step.parameters], _Others()
    used_KP = _used(fitted)
    for observation in fitted.observations:
        found.local |= set(observation.own)
        found.scaled |= observation.scaled
        for cluster in observation.clusters[1:]:
            touched = {names[p] for p in np.flatnonzero(cluster.parameters)}
            solution = cluster.solution
            used_K: Mask = np.any(used_KP[:, cluster.parameters], axis=1)
            present = patterns.presence(solution.coefficients, solution.errors, used_K)
            if patterns.own_only(present, fitted.step.keys, observation.ranks[0]):
                found.local |= touched
            elif (factor := _proportional(solution.coefficients[used_K], main.coefficients_K[used_K])) is not None:
                found.scaled |= dict.fromkeys(touched, factor)
            else:
                found.other |= touched
    return found


def _used(fitted: Fitted) -> Mask:
    """Which contributions hold a gradient of which parameter."""
    step = fitted.step
    found: Mask = np.add.reduceat(step.contributions_KL != 0, step.starts[:-1], axis=1) > 0
    return found


def _proportional(coefficients: Floats, main: Floats) -> float | None:
    """f where the coefficients are f times the main ones; None where they are not."""
    square = float(main @ main)
    factor = float(coefficients @ main) / square if square > 0 else 0.0
    apart = np.abs(coefficients - factor * main).max(initial=0.0)
    return (
        factor if apart <= 0.01 * np.abs(main).max(initial=0.0) * max(abs(factor), 1e-3) or abs(factor) < 1e-6 else None
    )


def _unused_in_last(fitted: Fitted, names: set[str]) -> bool:
    """These parameters, and no others, have no gradient in the last micro-batch, and lack ranks that used them."""
    step = fitted.step
    last = max(micro_batch for _, micro_batch in step.keys)
    used_KP = _used(fitted)
    is_last_K = np.array([micro_batch == last for _, micro_batch in step.keys])
    unused_P = used_KP.any(axis=0) & ~used_KP[is_last_K].any(axis=0)
    if last == 0 or {step.parameters[p].name for p in np.flatnonzero(unused_P)} != names:
        return False
    return all(_lacks_a_rank(fitted, int(p), used_KP[:, p]) for p in np.flatnonzero(unused_P))


def _lacks_a_rank(fitted: Fitted, parameter: int, used_K: Mask) -> bool:
    """The updates of a parameter hold the rank's own gradient, and some lack that of another rank that has one."""
    lacking = False
    for observation in fitted.observations:
        if fitted.step.parameters[parameter].name in observation.own:
            lacking = True
            continue
        solution = next((c.solution for c in observation.clusters[1:] if c.parameters[parameter]), None)
        if solution is None:
            return False
        found = patterns.presence(solution.coefficients, solution.errors, used_K)
        there, gone = _ranks(fitted, found.live), _ranks(fitted, found.gone)
        if not set(observation.ranks) & _ranks(fitted, used_K) <= there:
            return False
        lacking |= bool(gone - there)
    return lacking


def _ranks(fitted: Fitted, chosen_K: Mask) -> set[int]:
    return {rank for (rank, _), chosen in zip(fitted.step.keys, chosen_K, strict=True) if chosen}
