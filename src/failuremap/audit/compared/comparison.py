"""Steps judged by the gradients of one process, and what that says of the steps that were not compared.

Where the update of a parameter is no combination of the reference's contributions, nothing excuses it: the gradients
are right, so the update is wrong. That is the one way in which a compared step is judged otherwise than a captured one.

Legend: K contributions, P parameters, R ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from failuremap.audit.compared.delivered import SIGNS, Delivered, Origin, delivered
from failuremap.audit.compared.other_loss import is_other, times_the_job
from failuremap.audit.compared.reference import Compared, Reference, compared
from failuremap.audit.compared.unlike import Unlike, unlike
from failuremap.audit.faults import Asked, Fault, Judged, Story
from failuremap.audit.fitting.observe import Fitted, nonfinite, observe
from failuremap.audit.judge import judge
from failuremap.audit.sentences import reference_words
from failuremap.audit.signs.scaled import judge_scaled
from failuremap.audit.steps.windows import Step
from failuremap.catalogue.signs import Sign

# relative distance of coefficients from a multiple of the main ones
_SAME = 0.01
# what one process on the same batches cannot refute: it has the same batches, and no replicas
_BEYOND = ("same", "nonfinite", "rates", "norm")
_UNLIKE = "unlike one process"
_CROSSED = "activations cross the ranks in "
_OWN_FACTOR = "a factor of the script's own"


@dataclass
class _Found:
    """What the comparison of all steps that were kept has found."""

    judged: dict[int, Judged] = field(default_factory=dict)
    """By step."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why others could not be compared."""
    noise: dict[str, None] = field(default_factory=dict)
    """Parameters that were not compared, whose gradient is rounding."""


def with_reference(story: Story, reference: Reference | None, steps: Iterable[Step], asked: Asked) -> Story:
    """The story with its first steps judged by a reference run; as it is where there was none."""
    if reference is None:
        return story
    if reference.refused:
        return replace(story, open_reasons=[reference_words.NOTHING_COMPARED + reference.refused])
    seen = _compare(story, reference, steps, asked)
    found = seen.judged
    if not found:
        why = next(iter(seen.reasons.values()), "no step was kept")
        return replace(story, open_reasons=[reference_words.NOTHING_COMPARED + why])
    residuals = [judged.residual for judged in found.values() if judged.residual is not None]
    names = frozenset[str]().union(*(judged.names - judged.unjudged for judged in found.values())) - set(seen.noise)
    notes = [reference_words.agrees(sorted(found), max(residuals, default=None), len(names))]
    notes += [reference_words.noise(list(seen.noise))] if seen.noise else []
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
    left_out = [reference_words.not_compared(step, why) for step, why in seen.reasons.items()]
    return replace(story, judged=judged, open_reasons=left_out[:1], more_notes=notes)


def _compare(story: Story, reference: Reference, steps: Iterable[Step], asked: Asked) -> _Found:
    found, previous, before = _Found(), None, None
    for step in steps:
        made = compared(step, reference)
        if isinstance(made, str):
            found.reasons[step.number] = made
        elif made is not None:
            alone = next((judged for judged in story.judged if judged.number == step.number), Judged(step.number))
            captured = delivered(step, before, [one.members for one in made.owed], alone)
            times = times_the_job(step, made.owed, alone)
            found.judged[step.number] = judge_compared(made, previous, asked, captured, times)
            found.noise |= dict.fromkeys(made.noise)
            previous = made.step
        before = step
        if len(found.judged) + len(found.reasons) >= len(reference.windows):
            break
    return found


def _excused(judged: Judged, made: Compared, times: float | None) -> bool:
    """Takes back what differs from one process, where its loss is another one than that of the job."""
    unlike = [fault for fault in judged.faults if fault.kind.startswith(_UNLIKE) or fault.kind == "total"]
    touched = set[str]().union(*(fault.parameters for fault in unlike), made.noise, made.unused)
    none_agrees = {parameter.name for parameter in made.step.parameters} <= touched
    if not unlike or times is None or not is_other(times, none_agrees=none_agrees):
        return False
    judged.faults = [fault for fault in judged.faults if fault not in unlike]
    judged.unexplained.append(reference_words.OTHER_LOSS)
    judged.notes.append(reference_words.other_loss(judged.number, times, unlike[0].sentence))
    return True


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
        or _is_rounding(fault, found)
    ]


def _is_rounding(fault: Fault, found: Judged) -> bool:
    """Whether processes that round differently, as they do in small types, can't tell such weights from equal ones.

    What rounding leaves unexplained is as well in the coefficients, alike on all numbers.
    """
    return fault.kind == "weights" and fault.ratio is not None and fault.ratio - 1 <= 3 * (found.residual or 0.0)


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


def judge_compared(
    made: Compared, previous: Step | None, asked: Asked, captured: Delivered, times: float | None = None
) -> Judged:
    """Judges one step by the contributions of the reference, beside what was captured of it.

    Args:
        made: The step with the reference's contributions.
        previous: The one before it.
        asked: What the job promises.
        captured: The step as it was captured.
        times: What the objective's loss is in terms of the job's; None where it is not known.
    """
    step, asked = made.step, replace(asked, unit=None)
    left = Unlike()
    if step.keys and not any(nonfinite(step)):
        fitted = observe(step, previous)
        left = unlike(fitted, captured, made.own_names, asked)
        outside = np.array([p.name not in left.scaled and p.name not in left.apart for p in step.parameters])
        factors = _scaled_faults(left, fitted, captured)
        judged = judge(replace(step, present_RP=step.present_RP & outside), previous, asked)
        judged.faults = [*factors, *judged.faults]
        if not outside.any() or not (step.present_RP & outside).any():
            judged.doubts = []
    else:
        judged = judge(step, previous, asked)
    judged.notes = [note for note in judged.notes if not note.startswith(_CROSSED)]
    judged.faults = [fault for fault in judged.faults if not _is_rounding(fault, judged)]
    judged.names = made.names
    _tell_apart(judged, step, left, captured)
    _tell_absent(judged, made, captured)
    judged.unexplained += [reference_words.unused(made.unused)] if made.unused else []
    if not left.scaled and not left.apart:  # else the audit alone may have taken these for the usual ones
        _tell_total(judged, captured)
    if any(fault.kind in ("total", "gathered") for fault in judged.faults):
        judged.notes = [note for note in judged.notes if _OWN_FACTOR not in note]
    if not _excused(judged, made, times):
        judged.notes += reference_words.origins(left.large_origins, captured.functions)
    return judged


def _scaled_faults(left: Unlike, fitted: Fitted, captured: Delivered) -> list[Fault]:
    """One fault for each factor and where it comes from, with what is known of parameters that have just that one."""
    told = Judged(fitted.step.number, micro_batch_count=len({micro_batch for _, micro_batch in fitted.step.keys}))
    if left.scaled:
        judge_scaled(told, left.scaled, fitted)
    faults = []
    alike: dict[tuple[float, Origin], list[str]] = {}
    for name, value in sorted(left.scaled.items()):
        alike.setdefault((round(value, 6 if abs(value - 1) < _SAME else 3), left.origins[name]), []).append(name)
    for (times, origin), touched in sorted(alike.items()):
        fault = _fault(f"{_UNLIKE} {times:.2g} {touched}", reference_words.factor(touched, times), origin, captured)
        fault.signs |= set[Sign]().union(*(one.signs for one in told.faults if set(one.parameters) <= set(touched)))
        fault.parameters, fault.effect = touched, abs(times - 1)
        faults.append(fault)
    return faults


def _fault(kind: str, sentence: str, origin: Origin, captured: Delivered) -> Fault:
    """A fault of some parameters, with what the captured gradients say of it."""
    signs = captured.surroundings | SIGNS[origin] | {Sign.SOME_PARAMETERS}
    fault = Fault(kind, signs, sentence)
    if origin is Origin.PARTS_AVERAGED:  # parts of one gradient are to be added up, whatever the job promises
        fault.followed, fault.promise = ["mean"], "sum"
    return fault


def _tell_apart(judged: Judged, step: Step, left: Unlike, captured: Delivered) -> None:
    large = left.large
    for origin in sorted({left.origins[name] for name in large}):
        some = {name: by_rank for name, by_rank in large.items() if left.origins[name] is origin}
        sentence = reference_words.differs(some, len(step.parameters))
        fault = _fault(f"{_UNLIKE} apart {origin}", sentence, origin, captured)
        fault.parameters = sorted(some)
        fault.effect = max(value for by_rank in some.values() for value in by_rank.values())
        judged.faults.append(fault)
    if left.small and not large:
        judged.unexplained.append(reference_words.smaller_type(left.apart))
    judged.unjudged = judged.unjudged | left.small


def _tell_absent(judged: Judged, made: Compared, captured: Delivered) -> None:
    if made.absent:
        sentence = reference_words.absent(made.absent)
        fault = _fault(f"{_UNLIKE} absent", sentence, Origin.BACKWARD, captured)
        fault.parameters = made.absent
        judged.faults.append(fault)


def _tell_total(judged: Judged, captured: Delivered) -> None:
    """A factor on the whole update that is not the script's own: it doesn't show in what was captured."""
    for fault in judged.faults:
        if fault.kind == "total" and captured.settled:
            fault.signs |= captured.surroundings | SIGNS[Origin.BACKWARD]
    if any(fault.kind in ("total", "weights") for fault in judged.faults):
        return
    found = judged.factor or 1.0
    same = [fault for fault in captured.faults if fault.total is not None and _is(found, fault.total)]
    if same:  # what is right but for a factor confirms it
        judged.faults += same if not _is(found, 1.0) else []
        return
    times = found / captured.factor
    known = any(_is(times, value) for size in captured.group_sizes for value in (size, 1 / size))
    if known and captured.settled:
        signs = captured.surroundings | SIGNS[Origin.BACKWARD]
        judged.faults.append(Fault("total", signs, reference_words.total(times), total=times, cells=judged.cells))
    elif not _is(times, 1.0) and (known or captured.settled):
        judged.unexplained.append(reference_words.other_total(times))


def _is(found: float, wanted: float) -> bool:
    return abs(found / wanted - 1) <= _SAME
