"""What the collectives that a script calls say of a step: why contributions are missing, and what was not weighed.

They accuse nobody alone. They tell faults apart that leave the same coefficients, and say what crossed the ranks on
ways that the audit does not follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.faults import Judged
from failuremap.audit.fitting import patterns
from failuremap.audit.fitting.observe import Fitted
from failuremap.audit.sentences import call_words
from failuremap.audit.signs.gathered import gathered_calls
from failuremap.audit.steps.beside import Call
from failuremap.audit.steps.story import Part
from failuremap.audit.steps.windows import Step
from failuremap.catalogue.signs import Sign

Mask = NDArray[np.bool_]

# faults whose updates lack contributions of other ranks
_LACKING = ("own-rank-only", "apart", "local parameters", "local, unused", "other parameters")
_REDUCING = ("all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_single",
             "reduce_scatter_tensor", "all_gather", "all_gather_single", "all_gather_into_tensor")  # fmt: skip
_SENDING = ("send", "isend")
# a sum of fewer elements than this is as well a loss or a norm for the log
_FEWEST = 32
# what is added to gradients that are laid into one buffer, for each call
_PADDING = 64
# functions of torch.distributed.nn, through which scripts pass activations
_TORCH_CROSSINGS = frozenset(
    """_AllGather _AllGatherBase _AllReduce _AlltoAll _AlltoAllSingle _Broadcast _Gather _Reduce _Reduce_Scatter
    _Scatter""".split()
)

# numbers that a call takes where they are counts, losses or rewards, and no activations
_FIGURES = 32


def tell_calls(judged: Judged, fitted: Fitted) -> None:
    """Adds to the faults of a step why contributions are missing, and to its notes what was not weighed."""
    step = fitted.step
    judged.one_model = one_model(step)
    judged.averages_weights, judged.mixes_weights = averages_weights(step), mixes_weights(step)
    held = step.present_RP.sum(axis=0)
    judged.held_by_some = {
        p.name for p, count in zip(step.parameters, held, strict=True) if 0 < count < len(step.ranks)
    }
    for fault in judged.faults:
        if fault.kind in _LACKING:
            fault.signs |= _why(fitted, set(fault.parameters or judged.names))
    judged.notes += _notes(judged, step)
    judged.unexplained += _left_open(judged, step)


def crossings(step: Step) -> set[Sign]:
    """Whether activations, or their gradients, cross the ranks, as far as the script calls for it itself."""
    return (
        {Sign.ACTIVATIONS_CROSS} if any(crosses(call) for part in step.parts for call in part.beside.calls) else set()
    )


def unseen_crossings(step: Step) -> set[Sign]:
    """Whether a tensor with a gradient crosses the ranks in a call that autograd doesn't see."""
    found = _cut_off(step, few=False) or [
        call for call in gathered_calls(step) if call.carries_gradient or call.cut_off
    ]
    return {Sign.CROSSES_UNSEEN} if found else set()


def functions_of(step: Step) -> dict[str, str]:
    """The script's own autograd functions in which activations cross the ranks, each with a line of it."""
    calls = [call for part in step.parts for call in part.beside.calls if call.crosses]
    return _named((call.by, call.site) for call in calls if crosses(call) and call.own)


def one_model(step: Step) -> bool:
    """Whether activations cross ranks that may go through the same batches: these seem to run one model together.

    Of a loss whose targets nobody saw it isn't known which batch it is of.
    """
    groups = {call.ranks for part in step.parts for call in part.beside.calls if crosses(call)}
    return any(
        all(len({prints.get(rank) for rank in group}) == 1 and group[0] in prints for prints in _targets(step))
        for group in groups
    )


def averages_weights(step: Step) -> bool:
    """Whether as much as all weights was reduced, outside autograd, before the window's backward passes."""
    return all(
        sum(call.elements for call in part.beside.calls if _reduces_early(call)) >= sum(p.size for p in step.parameters)
        for part in step.parts
    )


def mixes_weights(step: Step) -> bool:
    """Whether each rank sent as many numbers as its weights have, or a multiple, before the backward passes."""
    size = sum(parameter.size for parameter in step.parameters)
    return size > 0 and all(any(_is_as_large(call, size) for call in part.beside.calls) for part in step.parts)


def _is_as_large(call: Call, size: int) -> bool:
    sends = call.when == "before" and call.function in _SENDING and call.crosses
    return sends and call.elements > 0 and call.elements % size == 0


def _reduces_early(call: Call) -> bool:
    return call.when == "before" and call.function in _REDUCING and call.crosses and not call.by


def all_batches_differ(step: Step) -> bool:
    """Whether no two ranks go through the same batch."""
    return all(len(set(prints.values())) == len(prints) and all(prints.values()) for prints in _targets(step))


def _targets(step: Step) -> list[dict[int, frozenset[float]]]:
    """What tells the batches of all ranks apart, micro-batch by micro-batch."""
    by_batch: dict[int, dict[int, frozenset[float]]] = {}
    for (rank, micro_batch), backward in zip(step.keys, step.backwards, strict=True):
        by_batch.setdefault(micro_batch, {})[rank] = backward.fingerprints
    return list(by_batch.values())


def crosses(call: Call) -> bool:
    """Whether activations go through a call: a function of autograd, not the framework's own, makes it."""
    return call.crosses and call.when != "after" and bool(call.by) and (call.own or call.by in _TORCH_CROSSINGS)


def _why(fitted: Fitted, names: set[str]) -> set[Sign]:
    """Why the updates of these parameters lack contributions, as far as the collectives behind forward tell."""
    lacks = _lacking(fitted, names)
    parts = [part for part in fitted.step.parts if lacks.get(part.rank)]
    found = [_late(part, lacks[part.rank]) for part in parts]
    if any(call.errors for calls in found for call in calls):
        return {Sign.REDUCTION_FAILED}
    sizes = [(_size(fitted, part, names), len(part.backwards)) for part in parts]
    for sign, told in ((Sign.REDUCTION_UNAWAITED, _unawaited), (Sign.RESULT_UNUSED, _unused)):
        if parts and all(told(calls, size, names) for calls, size in zip(found, sizes, strict=True)):
            return {sign}
    return set()


def _late(part: Part, lacks: set[int]) -> list[Call]:
    """The script's collectives in and after backward, with ranks whose contributions are missing."""
    calls = (call for call in part.beside.calls if call.when != "before" and not call.by and call.own and call.crosses)
    return [call for call in calls if lacks & set(call.ranks)]


def _unawaited(calls: list[Call], size: tuple[int, int], names: set[str]) -> bool:
    waiting = [call for call in calls if call.waiting and call.function in _REDUCING]
    held = set[str]().union(*(call.parameters for call in waiting))
    return names <= held or _as_large(waiting, *size)


def _unused(calls: list[Call], size: tuple[int, int], names: set[str]) -> bool:
    reducing = [call for call in calls if call.function in _REDUCING and not call.waiting]
    if any(call.parameters & names for call in reducing):
        return False
    return _as_large(reducing, *size)


def _as_large(calls: list[Call], size: int, passes: int) -> bool:
    """Whether as many elements as the gradients have were written elsewhere, up to padding, in each pass or once.

    What a call within backward writes to is not known, and not in which pass it is.
    """
    written = {call: call.elements if call.when == "backward" else call.other_elements for call in calls}
    others, padding = sum(written.values()), _PADDING * sum(call.calls for call, count in written.items() if count)
    most = passes if any(call.when == "backward" for call in calls) else 1
    return size >= _FEWEST and any(size * k <= others <= 1.02 * size * k + padding for k in range(1, most + 1))


def _size(fitted: Fitted, part: Part, names: set[str]) -> int:
    """Elements of these parameters on one rank."""
    row = fitted.step.ranks.index(part.rank)
    present = fitted.step.present_RP[row]
    return sum(p.size for p, here in zip(fitted.step.parameters, present, strict=True) if here and p.name in names)


def _lacking(fitted: Fitted, names: set[str]) -> dict[int, set[int]]:
    """Rank -> the ranks of which its update of these parameters holds nothing."""
    lacks: dict[int, set[int]] = {}
    everybody = set(fitted.step.ranks)
    for observation in fitted.observations:
        gone = set[int]()
        for cluster in observation.clusters:
            held = {fitted.step.parameters[p].name for p in np.flatnonzero(cluster.parameters)}
            if held & names:
                solution = cluster.solution
                found = patterns.presence(solution.coefficients, solution.errors, _used(fitted, cluster.parameters))
                gone |= {rank for rank in everybody if patterns.all_gone(found, fitted.step.keys, 0, rank)}
        for rank in observation.ranks:
            lacks[rank] = gone | (everybody - {rank} if names & set(observation.own) else set())
    return lacks


def _used(fitted: Fitted, parameters: Mask) -> Mask:
    """Contributions that hold a gradient of some of these parameters."""
    used_KP: Mask = np.add.reduceat(fitted.step.contributions_KL != 0, fitted.step.starts[:-1], axis=1) > 0
    used_K: Mask = np.any(used_KP[:, parameters], axis=1)
    return used_K


def _notes(judged: Judged, step: Step) -> Iterator[str]:
    calls = [call for part in step.parts for call in part.beside.calls if call.crosses]
    if functions := functions_of(step):
        yield call_words.own_backward(functions)
    if not judged.one_loss:
        frozen = (call for call in gathered_calls(step) if not (call.carries_gradient or call.cut_off))
        yield from map(call_words.gathered_classes, frozen)
    if any(call.own and call.waiting and call.parameters for call in calls) or _buckets_wait(step):
        yield call_words.UNAWAITED
    yield from map(call_words.no_gradient, _cut_off(step, few=True))
    if not crossings(step):
        yield from _factor_of_group(judged, step)


def _buckets_wait(step: Step) -> bool:
    """Whether nobody waited for what hooks of backward reduce, where it is most of the gradients."""
    for part, present in zip(step.parts, step.present_RP, strict=True):
        size = sum(p.size for p, here in zip(step.parameters, present, strict=True) if here)
        waiting = [call for call in _late(part, set(step.ranks)) if call.waiting and call.when == "backward"]
        if 2 * sum(call.elements for call in waiting if call.function in _REDUCING) >= max(size, _FEWEST):
            return True
    return False


def _left_open(judged: Judged, step: Step) -> Iterator[str]:
    """What crosses the ranks in a way that may take a part of the gradient, so that nothing can be called right."""
    if not judged.one_loss:
        yield from map(call_words.no_gradient, _cut_off(step, few=False))
        cut = (call for call in gathered_calls(step) if call.carries_gradient or call.cut_off)
        yield from map(call_words.gathered_classes, cut)
    if crossings(step):
        yield from _factor_of_group(judged, step)


def _cut_off(step: Step, *, few: bool) -> list[Call]:
    """Calls that take a tensor with a gradient which autograd does not follow; few numbers are figures for a log."""
    calls = [call for part in step.parts for call in part.beside.calls if call.crosses]
    if step.pipelines is not None:  # the stage before goes on from what comes back
        calls = [call for call in calls if call.function not in _SENDING]
    sites = {call.site for call in gathered_calls(step)}
    found = {call.site: call for call in calls if call.own and call.when == "before" and not call.by}.values()
    return [
        call
        for call in found
        if call.carries_gradient and call.site not in sites and few == (call.elements <= _FIGURES * call.calls)
    ]


def _factor_of_group(judged: Judged, step: Step) -> Iterator[str]:
    calls = [call for part in step.parts for call in part.beside.calls if call.crosses]
    sizes = {len(call.ranks) for call in calls if len(call.ranks) < len(step.ranks)}
    factor = judged.factor or 0.0
    if size := next((size for size in sorted(sizes) if any(abs(factor / f - 1) < 0.01 for f in (size, 1 / size))), 0):
        yield call_words.factor_of_group(factor, size, len(step.ranks))


def _named(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Each function once, with a line that calls it."""
    found: dict[str, str] = {}
    for by, site in pairs:
        found.setdefault(by, site)
    return found
