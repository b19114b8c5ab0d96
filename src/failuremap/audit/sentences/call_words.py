"""The sentences of a verdict on what crosses the ranks by the script's own calls. Nothing here decides anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failuremap.audit.sentences import words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from failuremap.audit.steps.beside import Call

UNAWAITED = (
    "reductions of gradients were started and not waited for before the optimizer stepped: what it reads depends on "
    "timing (read-before-reduced); call wait() on each handle"
)
ONE_MODEL = (
    "activations cross ranks that go through the same batches, and parameters are not the same on them: these ranks "
    "seem to hold parts of one model, whose gradients nothing needs to add up; with DTensors it can be told, and "
    "beside one process (--reference)"
)

STAGES = (
    "ranks send tensors on before their backward passes end, and not all of them have a loss: they seem to be stages "
    "of one model (a pipeline), whose gradients nothing needs to add up, but for copies of one weight "
    "(tied-copies-not-summed); which pass goes on from which can't be told, so nothing is judged: each pass but the "
    "last stage's has to start from a gradient just as the next stage sent it after a pass"
)


def experts(names: Sequence[str]) -> str:
    """Parameters that each rank steps on alone, among ranks that exchange units."""
    return (
        f"each rank steps on its own gradient of {words.listed(names)}, and units go to other ranks and back "
        "(all_to_all): experts that each rank holds for itself look so when they are right, and copies of one weight "
        "when they are not added up (partials-not-reduced)"
    )


def dealt_out(names: Sequence[str]) -> str:
    """Parameters that each rank steps on alone, and that were never the same."""
    return (
        f"the ranks start from different weights of {words.listed(names)}, each steps on its own gradient of them, and "
        "activations cross the ranks: parts of one model, such as experts, look so when they are right, and copies of "
        "one weight when they are neither alike nor added up (partials-not-reduced); a reference run can tell"
    )


def held_by_groups(names: Sequence[str]) -> str:
    """Parameters that groups of ranks step on, each for itself, among ranks that exchange units."""
    return (
        f"groups of ranks each step on their own gradients of {words.listed(names)}, and units go to other ranks and "
        "back (all_to_all): experts, and the copies of each, look so when they are right, and copies of one weight "
        "when they are not added up over all ranks (partials-not-reduced)"
    )


def strangers(groups: Sequence[Sequence[int]]) -> str:
    """Groups of ranks that have no parameter in common."""
    listed = " and ".join(f"ranks {words.listed([str(rank) for rank in ranks])}" for ranks in groups[:3])
    more = f" and {len(groups) - 3} more groups" if len(groups) > 3 else ""
    return (
        f"{listed}{more} step on different parameters: they seem to train models of their own side by side; audit each "
        "of them alone"
    )


def own_backward(functions: Mapping[str, str]) -> str:
    """Activations go through autograd functions of the script's own."""
    shown = words.listed([f"{name} ({site})" for name, site in functions.items()])
    return (
        f"activations cross the ranks in {shown}: what the backward hands on there is not checked. To check it: for "
        "y = forward(v), (y * g).sum() and (v * backward(g)).sum(), each added up over the ranks, are equal "
        "(wrong-backward-scale)"
    )


def no_gradient(call: Call) -> str:
    """A collective takes tensors that carry a gradient, and autograd doesn't see it."""
    return (
        f"{call.function} at {call.site} takes a tensor that carries a gradient, and autograd does not see the call: "
        "if the loss is made of its result, the part of the gradient that crosses the ranks is missing "
        "(gathered-part-detached)"
    )


def gathered_classes(call: Call) -> str:
    """A loss chooses from as many classes as rows were gathered."""
    return (
        f"a loss chooses from {call.rows} classes, as many as {call.function} at {call.site} brings rows from all "
        "ranks, without a gradient: if these rows are features, each rank's own alone get one, and the mean over the "
        "ranks makes it too small (gathered-part-detached); compare with one process on the whole batch"
    )


def gathered_parts_added(call: Call) -> str:
    """Ranks add up their parts of the gradient of one loss."""
    return (
        f"each rank computes the loss over all rows that {call.function} at {call.site} brings, and has "
        "the part of its gradient that its own rows bring; these parts are added up"
    )


def gathered_parts_averaged(call: Call, rank_count: int) -> str:
    """Ranks average their parts of the gradient of one loss."""
    return (
        f"Each rank has the part of one loss's gradient that its own rows bring, and these parts are averaged: the "
        f"update is 1/{rank_count} of their sum ({call.function} at {call.site} brings all rows, and no gradient back)."
    )


def gathered_parts_open(call: Call, total: float, rank_count: int) -> str:
    """The weight of one loss's parts is neither that of their sum nor that of their mean."""
    return (
        f"each rank has the part of one loss's gradient that its own rows bring ({call.function} at {call.site}); "
        f"added up, these parts weigh {rank_count} times what the script weighs its loss by, averaged 1 time, and here "
        f"{words.number(total)} in all: which of the two it is cannot be told; audit on another number of ranks, or "
        "compare with one process on the whole batch (--reference)"
    )


def own_group(names: Sequence[str], factor: float, size: int, rank_count: int) -> str:
    """Parameters are divided by the size of a group of their own."""
    return (
        f"{f'{len(names)} parameters are' if len(names) > 1 else '1 parameter is'} reduced over {size} of {rank_count} "
        f"ranks and get{'' if len(names) > 1 else 's'} {words.number(factor)} times the update of the rest, which is "
        f"reduced over all: {words.listed(names)}."
    )


def factor_of_group(factor: float, size: int, rank_count: int) -> str:
    """A factor that is the size of a group of ranks."""
    shown = words.number(factor) if factor > 1 else f"1/{size}"
    return (
        f"the factor {shown} is the size of the groups of {size} ranks, out of {rank_count}, over which the script "
        "calls collectives: do the denominator of the loss and the divisor of the gradients count the same ranks "
        "(group-divisor-mismatch)?"
    )
