"""The norm that a job clips by, beside the norm of the update that it clips.

    norm of the update before the clip = its length in the step / (limit / norm that was used)

Where the norm that was used is the root of c times that, and the script adds something up over c ranks between backward
and step, the squares of c copies of one gradient were added up as if they were shards.
"""

from __future__ import annotations

import math

from failuremap.audit import step_words
from failuremap.audit.faults import Fault, Judged
from failuremap.audit.windows import Step
from failuremap.catalogue.signs import Sign

# relative difference up to which a norm is the one that copies give: lengths are taken in float32 at least
_SAME = 1e-3
# a factor nearer to 1 shows no norm
_BITES = 0.999


def judge_norms(judged: Judged, step: Step) -> None:
    """Judges a clip whose norm is that of several copies of the gradient.

    Args:
        judged: The step as its weights were judged; gets a fault.
        step: The step; it is silent unless all ranks clip once, by one norm, and the clip bites.
    """
    used = _norm_used(step)
    if used is None or step.length is None or judged.factor is not None:
        return
    norm, factor = used
    ratio = norm * factor / step.length if step.length > 0 else 0.0
    copies = next((count for count in sorted(_summed_over(step)) if abs(ratio / math.sqrt(count) - 1) <= _SAME), 0)
    # what is divided by the window after the clip looks alike
    if copies and abs(math.sqrt(copies) / judged.micro_batch_count - 1) > _SAME:
        sentence = step_words.copies_in_norm(ratio, copies)
        judged.faults.append(Fault("norm", {Sign.COPIES_IN_NORM}, sentence))


def _norm_used(step: Step) -> tuple[float, float] | None:
    """The norm that all ranks clip by once, behind their last backward, and the factor that it gives; else None."""
    found = []
    for part in step.parts:
        last = part.backwards[-1].id if part.backwards else -1
        if len(part.clips) != 1 or part.clips[0]["after"] < last:
            return None
        (clip,) = part.clips
        found.append((clip["norm"], clip["limit"] / (clip["norm"] + 1e-6)))
    norms, factors = zip(*found, strict=True)
    if max(norms) - min(norms) > _SAME * max(norms) or max(factors) > _BITES:
        return None
    return found[0]


def _summed_over(step: Step) -> set[int]:
    """Numbers of ranks over which the script adds up something that is no gradient, between backward and step."""
    calls = (call for part in step.parts for call in part.beside.calls)
    return {
        len(call.ranks)
        for call in calls
        if call.when == "after" and call.own and call.crosses and call.other_elements and "reduce" in call.function
    }
