"""A loss that every rank computes over the rows of all ranks, of which its own alone carry a gradient.

Each rank's gradient is then a part of one gradient, and the parts add up: a total weight of R, counted over the copies
of the loss, is right, and the 1 of a mean over the ranks is 1/R of it.

Legend: R ranks.
"""

from __future__ import annotations

from typing import Any

from failuremap.audit.faults import Fault, Judged
from failuremap.audit.fitting.observe import Fitted
from failuremap.audit.sentences import call_words
from failuremap.audit.steps.beside import Call
from failuremap.audit.steps.windows import Step
from failuremap.catalogue.signs import Sign

# functions of torch.distributed.nn that gather, and hand the gradient back
_OF_TORCH = ("_AllGather", "_AllGatherBase")
# relative difference up to which a total weight is the one that is asked for
_SAME = 0.01


def judge_gathered(judged: Judged, fitted: Fitted) -> None:
    """Judges the terms of a loss that all ranks compute over the same gathered rows."""
    ranks = len(fitted.step.ranks)
    call = _shared(fitted) if ranks > 1 and judged.totals else None
    if call is None:
        return
    judged.one_loss, judged.factor = True, None
    total = sum(judged.totals.values())
    judged.cells = [
        cell if cell.share is None else cell.model_copy(update={"share": cell.share / ranks}) for cell in judged.cells
    ]
    each_a_mean = len(judged.totals) > 1 and all(abs(one - 1) <= _SAME for one in judged.totals.values())
    if abs(total / ranks - 1) <= _SAME and not each_a_mean:
        judged.faults = [fault for fault in judged.faults if fault.kind != "total"]
        judged.notes.append(call_words.gathered_parts_added(call))
    elif abs(total - 1) <= _SAME:
        sentence = call_words.gathered_parts_averaged(call, ranks)
        sign = {Sign.GATHERED_WITHOUT_GRADIENT}
        judged.faults.append(Fault("gathered", sign, sentence, total=total / ranks, cells=judged.cells))
    elif not judged.faults:
        judged.unexplained.append(call_words.gathered_parts_open(call, total, ranks))


def gathered_calls(step: Step) -> list[Call]:
    """Gathers of as many rows as a loss has classes, each line once, that autograd doesn't see."""
    classes = {loss.get("classes") for backward in step.backwards for loss in backward.losses}
    return list({call.site: call for call in _detached(step) if call.rows in classes}.values())


def _shared(fitted: Fitted) -> Call | None:
    """The gather over all ranks of the rows of a loss that each rank computes in full, with a gradient of its own."""
    step = fitted.step
    calls = [call for call in (*_detached(step), *_one_way(step)) if set(call.ranks) == set(step.ranks)]
    if not calls or any(len({step.keys[k][0] for k in members}) > 1 for members in fitted.same):
        return None
    by_batch: dict[int, set[frozenset[float]]] = {}
    losses = [loss for backward in step.backwards for loss in backward.losses]
    for (_, micro_batch), backward in zip(step.keys, step.backwards, strict=True):
        by_batch.setdefault(micro_batch, set()).add(backward.fingerprints)
    alike = all(len(prints) == 1 and frozenset() not in prints for prints in by_batch.values())
    of_all = [call for call in calls if all(_is_over_rows_of(loss, call) for loss in losses)]
    return of_all[0] if alike and of_all else None


def _detached(step: Step) -> list[Call]:
    """Gathers of the script's own before a backward, that autograd doesn't see."""
    calls = (call for part in step.parts for call in part.beside.calls)
    found = [
        call for call in calls if call.crosses and call.own and call.when == "before" and not call.by and call.rows
    ]
    followed = _followed(step)
    return [call for call in found if (call.ranks, call.elements / call.calls) not in followed]


def _followed(step: Step) -> set[tuple[tuple[int, ...], float]]:
    """Ranks and elements of gathers that autograd does see: one beside them, of as much, is for a metric."""
    calls = [call for part in step.parts for call in part.beside.calls if call.crosses and call.by]
    back = {call.by for call in calls if call.when == "backward"}
    return {
        (call.ranks, call.elements / call.calls)
        for call in calls
        if call.when == "before"
        and call.function.startswith("all_gather")
        and (call.by in back or call.by in _OF_TORCH)
    }


def _one_way(step: Step) -> list[Call]:
    """Gathers in an autograd function of the script's own whose backward calls nothing."""
    calls = [call for part in step.parts for call in part.beside.calls if call.own and call.by and call.crosses]
    back = {call.by for call in calls if call.when == "backward"}
    return [call for call in calls if call.function.startswith("all_gather") and call.by not in back]


def _is_over_rows_of(loss: dict[str, Any], call: Call) -> bool:
    """Whether a loss sets each of the gathered rows, or of several such gathers, against all, or all others.

    The rows of a gather that wasn't counted are those of the loss, where the ranks can have equal parts of them.
    """
    count, classes = float(loss["count"]), float(loss.get("classes") or 0)
    return count > 1 and count - classes in (0, 1) and count % (call.rows or len(call.ranks)) == 0
