"""A loss that every rank computes over the rows of all ranks, of which its own alone carry a gradient.

Each rank's gradient is then a part of one gradient, and the parts add up: a total weight of R, counted over the copies
of the loss, is right, and the 1 of a mean over the ranks is 1/R of it.

Legend: R ranks.
"""

from __future__ import annotations

from failuremap.audit import call_words
from failuremap.audit.beside import Call
from failuremap.audit.faults import Fault, Judged
from failuremap.audit.observe import Fitted
from failuremap.audit.windows import Step
from failuremap.catalogue.signs import Sign

# relative difference up to which a total weight is the one that is asked for
_SAME = 0.01


def judge_gathered(judged: Judged, fitted: Fitted) -> None:
    """Judges the terms of a loss that all ranks compute over the same gathered rows."""
    ranks = len(fitted.step.ranks)
    call = _shared(fitted) if ranks > 1 and len(judged.totals) == 1 else None
    if call is None:
        return
    judged.one_loss = True
    (total,) = judged.totals.values()
    judged.cells = [
        cell if cell.share is None else cell.model_copy(update={"share": cell.share / ranks}) for cell in judged.cells
    ]
    if abs(total / ranks - 1) <= _SAME:
        judged.faults = [fault for fault in judged.faults if fault.kind != "total"]
        judged.notes.append(call_words.gathered_parts_added(call))
    elif abs(total - 1) <= _SAME:
        sentence = call_words.gathered_parts_averaged(call, ranks)
        sign = {Sign.GATHERED_WITHOUT_GRADIENT}
        judged.faults.append(Fault("gathered", sign, sentence, total=total / ranks, cells=judged.cells))


def gathered_calls(step: Step) -> list[Call]:
    """Gathers of as many rows as a loss has classes, each line once, that autograd doesn't see."""
    classes = {loss.get("classes") for backward in step.backwards for loss in backward.losses}
    calls = (call for part in step.parts for call in part.beside.calls)
    found = {
        call.site: call
        for call in calls
        if call.crosses and call.own and call.when == "before" and not call.by and call.rows and call.rows in classes
    }
    return list(found.values())


def _shared(fitted: Fitted) -> Call | None:
    """The gather over all ranks of the rows of a loss that each rank computes in full, with a gradient of its own."""
    step = fitted.step
    calls = [call for call in (*gathered_calls(step), *_one_way(step)) if set(call.ranks) == set(step.ranks)]
    if not calls or any(len({step.keys[k][0] for k in members}) > 1 for members in fitted.same):
        return None
    by_batch: dict[int, set[frozenset[float]]] = {}
    sizes = set[float]()
    for (_, micro_batch), backward in zip(step.keys, step.backwards, strict=True):
        if not backward.losses:
            return None
        by_batch.setdefault(micro_batch, set()).add(backward.fingerprints)
        sizes |= {size for loss in backward.losses for size in (float(loss.get("classes") or 0), float(loss["count"]))}
    alike = all(len(prints) == 1 and frozenset() not in prints for prints in by_batch.values())
    of_all = [call for call in calls if sizes == {float(call.rows or _rows_of_all(call, sizes))}]
    return of_all[0] if alike and of_all else None


def _one_way(step: Step) -> list[Call]:
    """Gathers in an autograd function of the script's own whose backward calls nothing."""
    calls = [call for part in step.parts for call in part.beside.calls if call.own and call.by and call.crosses]
    back = {call.by for call in calls if call.when == "backward"}
    return [call for call in calls if call.function.startswith("all_gather") and call.by not in back]


def _rows_of_all(call: Call, sizes: set[float]) -> float:
    """The rows of a gather that wasn't counted: those of the loss, where the ranks can have equal parts of them."""
    return max(size if size % len(call.ranks) == 0 else 0.0 for size in sizes)
