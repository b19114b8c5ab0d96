"""The norm that a job clips by, beside the norm of the update that it clips, and beside those of other ranks.

    norm of the update before the clip = its length in the step / (limit / norm that was used)

Where the norm that was used is the root of c times that, and the script adds something up over c ranks between backward
and step, the squares of c copies of one gradient were added up as if they were shards. Where it is the factor of a
GradScaler times that, the gradient was clipped before it was divided by this factor. Where each rank steps on
parameters of its own, and their rules differ by the factors of their own norms, the squares were not added up.
"""

from __future__ import annotations

import math

import numpy as np

from failuremap.audit.faults import Fault, Judged
from failuremap.audit.fitting.observe import Fitted
from failuremap.audit.sentences import pipeline_words, step_words
from failuremap.audit.steps.windows import Step
from failuremap.catalogue.signs import Sign

# relative difference up to which a norm is the one that copies give: lengths are taken in float32 at least
_SAME = 1e-3
# a factor nearer to 1 shows no norm
_BITES = 0.999

Clip = tuple[float, float]
"""The norm that was used, and the factor that it gives."""


def judge_norms(judged: Judged, fitted: Fitted) -> None:
    """Judges a clip whose norm is that of several copies of the gradient, or of one rank's parameters alone.

    Args:
        judged: The step as its weights were judged; gets a fault, or a sign for the one that it has.
        fitted: The step; it is silent unless all ranks clip once, behind their last backward.
    """
    _judge_stages(judged, fitted)
    clips = _clips(fitted.step)
    if clips and _scaled_by_own_norms(fitted, clips):
        for fault in judged.faults:
            fault.signs |= {Sign.SHARDS_SCALED_APART} if fault.kind == "apart" else set()
    elif clips:
        _judge_copies(judged, fitted.step, clips)
        _judge_scaled(judged, fitted.step, clips)


def _judge_stages(judged: Judged, fitted: Fitted) -> None:
    """Stages of one pipeline that clip by norms of their own, where their updates differ."""
    pipelines = fitted.step.pipelines
    factors = {} if pipelines is None else pipelines.clip_factors
    apart = any(len(o.clusters) > 1 or o.scaled for o in fitted.observations)
    if apart and factors and max(factors.values()) - min(factors.values()) > _SAME * max(factors.values()):
        judged.faults.append(Fault("shards", {Sign.SHARDS_SCALED_APART}, pipeline_words.norms_of_stages(factors)))


def _judge_copies(judged: Judged, step: Step, clips: list[Clip]) -> None:
    used = _norm_used(clips)
    if used is None or step.length is None or judged.factor is not None:
        return
    norm, factor = used
    ratio = norm * factor / step.length if step.length > 0 else 0.0
    copies = next((count for count in sorted(_summed_over(step)) if abs(ratio / math.sqrt(count) - 1) <= _SAME), 0)
    # what is divided by the window after the clip looks alike
    if copies and abs(math.sqrt(copies) / judged.micro_batch_count - 1) > _SAME:
        sentence = step_words.copies_in_norm(ratio, copies)
        judged.faults.append(Fault("norm", {Sign.COPIES_IN_NORM}, sentence))


def _judge_scaled(judged: Judged, step: Step, clips: list[Clip]) -> None:
    """A clip of gradients that a GradScaler divides afterwards: its limit is in units that change with the scale."""
    used = _norm_used(clips)
    scale = min(part.clips[0]["scale"] for part in step.parts)
    if used is None or not step.length or scale == 1.0:
        return
    norm, factor = used
    if abs(norm * factor / step.length / scale - 1) <= _SAME:
        judged.faults.append(Fault("norm", set(), step_words.clipped_while_scaled(scale)))


def _clips(step: Step) -> list[Clip]:
    """Norm and factor on each rank; [] where one clips not once, or before its last backward."""
    found = []
    for part in step.parts:
        last = part.backwards[-1].id if part.backwards else -1
        if len(part.clips) != 1 or part.clips[0]["after"] < last:
            return []
        (clip,) = part.clips
        found.append((clip["norm"], min(1.0, clip["limit"] / (clip["norm"] + 1e-6))))
    return found


def _norm_used(clips: list[Clip]) -> Clip | None:
    """The norm that all ranks clip by, where it is one and bites; else None."""
    norms, factors = zip(*clips, strict=True)
    return clips[0] if max(norms) - min(norms) <= _SAME * max(norms) and max(factors) < _BITES else None


def _scaled_by_own_norms(fitted: Fitted, clips: list[Clip]) -> bool:
    """Whether no two ranks step on one parameter, and their rules are one rule times the factors of their clips."""
    step = fitted.step
    rules = {rank: o.clusters[0].solution for o in fitted.observations if o.clusters for rank in o.ranks}
    if len(step.ranks) < 2 or (step.present_RP.sum(axis=0) > 1).any() or set(rules) != set(step.ranks):
        return False
    undone = [rules[rank].coefficients / factor for rank, (_, factor) in zip(step.ranks, clips, strict=True)]
    largest = max(float(np.abs(rule).max(initial=0.0)) for rule in undone)
    alike = all(float(np.abs(rule - undone[0]).max(initial=0.0)) <= 0.01 * largest for rule in undone)
    return alike and np.ptp([factor for _, factor in clips]) > _SAME


def _summed_over(step: Step) -> set[int]:
    """Numbers of ranks over which the script adds up something that is no gradient, between backward and step."""
    calls = (call for part in step.parts for call in part.beside.calls)
    return {
        len(call.ranks)
        for call in calls
        if call.when == "after" and call.own and call.crosses and call.other_elements and "reduce" in call.function
    }
