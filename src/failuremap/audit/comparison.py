"""Steps judged by the gradients of one process, and what that says of the steps that were not compared.

Where the update of a parameter is no combination of the reference's contributions, nothing excuses it: the gradients
are right, so the update is wrong. That is the one way in which a compared step is judged otherwise than a captured one.

Legend: K contributions, P parameters, R ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from failuremap.audit import reference_words
from failuremap.audit.crossings import crossings
from failuremap.audit.faults import Asked, Fault, Judged, Story
from failuremap.audit.fit import tolerance
from failuremap.audit.judge import judge
from failuremap.audit.observe import Fitted, Observation, nonfinite, observe
from failuremap.audit.reference import Compared, Reference, compared
from failuremap.audit.scaled import judge_scaled
from failuremap.audit.windows import Step
from failuremap.catalogue.signs import Sign

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# relative distance of coefficients from a multiple of the main ones
_SAME = 0.01
# what one process on the same batches cannot refute: it has the same batches, and no replicas
_BEYOND = ("same", "nonfinite", "rates", "norm")
# numbers from which on a multiple is no chance
_ENOUGH = 3
_UNLIKE = "unlike one process"
_CROSSED = "activations cross the ranks in "


@dataclass
class _Left:
    """Parameters whose update the reference does not explain by the rule of most."""

    scaled: dict[str, float] = field(default_factory=dict)
    apart: dict[str, dict[int, float]] = field(default_factory=dict)
    """By name and rank the relative difference from one process."""
    small: set[str] = field(default_factory=set)
    """Those among them whose difference a smaller type would explain."""


def with_reference(story: Story, reference: Reference | None, steps: Iterable[Step], asked: Asked) -> Story:
    """The story with its first steps judged by a reference run; as it is where there was none."""
    if reference is None:
        return story
    if reference.refused:
        return replace(story, open_reasons=[reference_words.NOTHING_COMPARED + reference.refused])
    found: dict[int, Judged] = {}
    reasons, noise, previous = list[str](), dict[str, None](), None
    for step in steps:
        made = compared(step, reference)
        if isinstance(made, str):
            reasons.append(reference_words.NOTHING_COMPARED + made)
        elif made is not None:
            found[step.number] = judge_compared(made, previous, asked)
            noise |= dict.fromkeys(made.noise)
            previous = made.step
        if len(found) + len(reasons) >= len(reference.windows):
            break
    if not found:
        return replace(story, open_reasons=reasons[:1] or [reference_words.NOTHING_COMPARED + "no step was kept"])
    residuals = [judged.residual for judged in found.values() if judged.residual is not None]
    count = len(frozenset[str]().union(*(judged.names - judged.unjudged for judged in found.values())) - set(noise))
    notes = [reference_words.agrees(sorted(found), max(residuals, default=None), count)]
    notes += [reference_words.noise(list(noise))] if noise else []
    captured = [step for step in story.judged if step.number in found]
    confirmed = {fault.kind for step in captured for fault in _confirmed(found[step.number], step)}
    judged = [
        _together(found[step.number], step) if step.number in found else _settled(step, captured, found, confirmed)
        for step in story.judged
    ]
    for one in judged:
        one.one_model = one.stages = False
        one.experts = one.experts | reference.split
        one.differing = [name for name in one.differing if name not in reference.split]
    return replace(story, judged=judged, open_reasons=reasons[:1], more_notes=notes)


def _together(found: Judged, captured: Judged) -> Judged:
    """A compared step; what was captured tells more of a fault that both show, and of what a comparison can't show."""
    same = _confirmed(found, captured)
    kinds, explained = {fault.kind for fault in same}, set[str]().union(*(fault.parameters for fault in same))
    others = [fault for fault in captured.faults if fault.kind.startswith(_BEYOND) and fault.kind not in kinds]
    left = [fault for fault in found.faults if fault.kind not in kinds and not _only_unlike(fault, explained)]
    return replace(found, faults=[*same, *left, *others])


def _only_unlike(fault: Fault, names: set[str]) -> bool:
    """Whether a fault says of these parameters that they differ from one process, and nothing else."""
    return fault.kind.startswith(_UNLIKE) and set(fault.parameters) <= names


def _confirmed(found: Judged, captured: Judged) -> list[Fault]:
    """The faults of a captured step that the comparison shows, too: the same numbers, or the same parameters."""
    unlike = set[str]().union(*(fault.parameters for fault in found.faults if fault.kind.startswith(_UNLIKE)))
    return [
        fault
        for fault in captured.faults
        if any(fault.kind == other.kind and _near(fault, other) for other in found.faults)
        or (fault.parameters and set(fault.parameters) <= unlike and not fault.kind.startswith("scaled"))
    ]


def _near(fault: Fault, other: Fault) -> bool:
    pairs = [(fault.ratio, other.ratio), (fault.total, other.total)]
    return all(a is None or b is None or abs(a - b) <= _SAME * abs(b) for a, b in pairs)


def _settled(step: Judged, captured: list[Judged], found: dict[int, Judged], confirmed: set[str]) -> Judged:
    """A step that was not compared, without what the comparison has settled for windows of its length."""
    compared_steps = (*captured, *found.values())
    if step.micro_batch_count not in {other.micro_batch_count for other in compared_steps}:
        return step
    kinds = {_kind(fault) for other in compared_steps for fault in other.faults if fault.kind not in confirmed}
    said = {reason for other in captured for reason in (*other.doubts, *other.unexplained, *other.unmeasured)}
    noted = {note for other in captured for note in other.notes}
    return replace(
        step,
        faults=[fault for fault in step.faults if _kind(fault) not in kinds or fault.kind.startswith(_BEYOND)],
        doubts=[reason for reason in step.doubts if reason not in said],
        unexplained=[reason for reason in step.unexplained if reason not in said],
        unmeasured=[reason for reason in step.unmeasured if reason not in said],
        notes=[note for note in step.notes if note not in noted],
        unjudged=step.unjudged.intersection(*(other.unjudged for other in found.values())),
    )


def _kind(fault: Fault) -> str:
    """Faults that differ from step to step by a number or a name alone are of one kind."""
    return " ".join(fault.kind.split()[:2])


def judge_compared(made: Compared, previous: Step | None, asked: Asked) -> Judged:
    """Judges one step by the contributions of the reference."""
    step, asked = made.step, replace(asked, unit=None)
    left = _Left()
    if step.keys and not any(nonfinite(step)):
        fitted = observe(step, previous)
        left = _left(fitted, asked)
        outside = np.array([p.name not in left.scaled and p.name not in left.apart for p in step.parameters])
        factors = _scaled_faults(left.scaled, fitted)
        judged = judge(replace(step, present_RP=step.present_RP & outside), previous, asked)
        judged.faults = [*factors, *judged.faults]
        if not outside.any() or not (step.present_RP & outside).any():
            judged.doubts = []
    else:
        judged = judge(step, previous, asked)
    judged.notes = [note for note in judged.notes if not note.startswith(_CROSSED)]
    judged.names = made.names
    _tell_apart(judged, step, left)
    if made.absent:
        signs = crossings(step) | {Sign.SOME_PARAMETERS}
        sentence = reference_words.absent(made.absent)
        judged.faults.append(Fault(f"{_UNLIKE} absent", signs, sentence, parameters=made.absent))
    return judged


def _scaled_faults(scaled: dict[str, float], fitted: Fitted) -> list[Fault]:
    """One fault for each factor, with what is known of parameters that have just that one."""
    told = Judged(fitted.step.number, micro_batch_count=len({micro_batch for _, micro_batch in fitted.step.keys}))
    if scaled:
        judge_scaled(told, scaled, fitted)
    faults = []
    for times in sorted({round(value, 3) for value in scaled.values()}):
        touched = sorted(name for name, value in scaled.items() if round(value, 3) == times)
        signs = set[Sign]().union(*(fault.signs for fault in told.faults if set(fault.parameters) <= set(touched)))
        signs |= crossings(fitted.step) | {Sign.SOME_PARAMETERS}
        sentence, kind = reference_words.factor(touched, times), f"{_UNLIKE} {times:.2g} {touched}"
        faults.append(Fault(kind, signs, sentence, parameters=touched, effect=abs(times - 1)))
    return faults


def _tell_apart(judged: Judged, step: Step, left: _Left) -> None:
    large = {name: by_rank for name, by_rank in left.apart.items() if name not in left.small}
    if large:
        signs = crossings(step) | {Sign.SOME_PARAMETERS}
        sentence = reference_words.differs(large, len(step.parameters))
        effect = max(value for by_rank in large.values() for value in by_rank.values())
        judged.faults.append(Fault(_UNLIKE, signs, sentence, parameters=sorted(large), effect=effect))
    elif left.small:
        judged.unexplained.append(reference_words.smaller_type(left.apart))
    judged.unjudged = judged.unjudged | left.small


def _left(fitted: Fitted, asked: Asked) -> _Left:
    """Sorts the parameters that the main rule does not explain, where they follow no other rule that has a form."""
    left, large = _Left(), set[str]()
    for observation in fitted.observations:
        row = fitted.step.ranks.index(observation.ranks[0])
        main = observation.clusters[0].solution.coefficients if observation.clusters else _fair(fitted, asked)
        for p in np.flatnonzero(_unlike(fitted, observation, main)):
            name = fitted.step.parameters[p].name
            if name in observation.scaled:
                left.scaled[name] = observation.scaled[name]
                continue
            apart, times, after = _distance(fitted, row, int(p), main)
            limit = tolerance(fitted.products.dtypes[p], len(fitted.classes))
            if after <= limit and observation.clusters and fitted.products.row_counts[p] >= _ENOUGH:
                left.scaled[name] = times
            else:
                left.apart.setdefault(name, {}).update(dict.fromkeys(observation.ranks, apart))
                if apart > tolerance(_in_small_type(fitted.products.dtypes[p]), 1):
                    large.add(name)
    for name in left.scaled.keys() & left.apart.keys():
        del left.scaled[name]
    left.small = set(left.apart) - large
    return left


def _unlike(fitted: Fitted, observation: Observation, main: Floats) -> Mask:
    """Parameters that no rule explains, and those that follow the main one times a factor."""
    scaled = np.array([parameter.name in observation.scaled for parameter in fitted.step.parameters], dtype=bool)
    found: Mask = observation.unexplained | observation.untouched | scaled
    square = float(main @ main)
    for cluster in observation.clusters[1:]:
        own = cluster.solution.coefficients
        factor = float(own @ main) / square if square else 0.0
        if np.abs(own - factor * main).max(initial=0.0) <= _SAME * np.abs(factor * main).max(initial=0.0):
            found = found | cluster.parameters
    return found


def _in_small_type(dtype: str) -> str:
    """So many roundings of bfloat16 as there are of a type."""
    return f"bfloat16 x {dtype.partition(' x ')[2] or 1}"


def _fair(fitted: Fitted, asked: Asked) -> Floats:
    """What each contribution should weigh."""
    units = np.array([float(backward.losses[0]["count"]) for backward in fitted.step.backwards])
    return np.full(len(units), 1.0 if asked.promise == "sum" else 1.0 / max(units.sum(), 1e-300))


def _distance(fitted: Fitted, row: int, p: int, coefficients_K: Floats) -> tuple[float, float, float]:
    """|update - right| / |right|, the factor that brings them nearest, and what is left behind it, of the update."""
    columns = slice(int(fitted.step.starts[p]), int(fitted.step.starts[p + 1]))
    update, right = fitted.step.updates_RL[row, columns], coefficients_K @ fitted.step.contributions_KL[:, columns]
    square, size = float(right @ right), float(np.sqrt(update @ update))
    if square == 0:
        return float("inf"), float("inf"), 1.0
    factor = float(update @ right) / square
    after = float(np.linalg.norm(update - factor * right)) / size if size else 0.0
    return float(np.linalg.norm(update - right)) / square**0.5, factor, after
