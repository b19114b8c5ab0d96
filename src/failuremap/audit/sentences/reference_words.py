"""The sentences of a comparison with one process. Nothing here decides anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from failuremap.audit.compared.delivered import Origin
from failuremap.audit.sentences import words

NOTHING_COMPARED = "no step was compared with one process: "


OTHER_LOSS = (
    "the objective computes another loss than the job on the same batch, so what differs accuses nobody: does it lack "
    "a term, mask other units, or call the model with other arguments?"
)
SAME_NAMES = (
    "parameters of several stages have one name: give the layers of a stage the names that they have in the whole model"
)


def unused(names: Sequence[str]) -> str:
    """Parameters without a gradient in the reference."""
    return (
        f"{words.listed(names)}: the job has an update, and a single process has no gradient: does the objective lack "
        "a term of the loss?"
    )


def part(name: str, rank: int | None) -> str:
    """'up.weight on rank 1': a rank's part of a parameter."""
    return name if rank is None else f"{name} on rank {rank}"


def failed(why: str) -> str:
    """The reference run itself went wrong."""
    return f"the reference run failed: {why}"


def not_compared(step: int, why: str) -> str:
    """One step could not be compared, and others could."""
    return f"step {step} was not compared with one process: {why}"


def weights_differ(names: Sequence[str]) -> str:
    """Ranks that hold other weights under one name: one process has one of them."""
    return (
        f"the ranks hold different weights of {words.listed(names)}, and one process holds one; where each rank has a "
        "part of it, experts for one, say along which dimension:  shards = {'name': 0}"
    )


def other_loss(step: int, times: float, sentence: str) -> str:
    """A difference that the objective may have made itself."""
    return f"step {step}: the objective's loss is {times:.4g} times the job's. {sentence}"


def not_kept(step: int, rank: int, number: int) -> str:
    """A contribution without a batch."""
    return f"no batch was kept of backward pass {number} on rank {rank}, which step {step} holds"


def other_shape(name: str) -> str:
    """A parameter of the job is another one in the reference."""
    return f"parameter {name!r} has another shape in the job than in the reference's model"


def factor(names: Sequence[str], times: float) -> str:
    """A gradient times a factor."""
    if len(names) == 1:
        return f"{names[0]}: the update is {_times(times)} times that of a single process."
    return f"{len(names)} parameters get {_times(times)} times the update of a single process: {words.listed(names)}."


def total(times: float) -> str:
    """The whole update, times a factor that a number of ranks gives."""
    return f"The update is {_times(times)} times that of a single process, on all parameters."


def other_total(times: float) -> str:
    """The whole update, times a factor that has no name, or may be the script's own."""
    return (
        f"the update is {_times(times)} times that of a single process, and the script does not multiply it so where "
        "the audit sees it: is it a weight of the loss, which the objective should have too, or does a backward add it?"
    )


def differs(apart: Mapping[str, Mapping[int, float]], count: int) -> str:
    """Parameters whose update is no multiple of what it should be, and by how much."""
    shown = words.listed([f"{name} by {_ranks(by_rank)}" for name, by_rank in apart.items()])
    if len(apart) == 1:
        return f"The update of one parameter differs from that of a single process: {shown}."
    return f"The updates of {len(apart)} of {count} parameters differ from those of a single process: {shown}."


def origins(found: Mapping[Origin, Sequence[str]], functions: Mapping[str, str]) -> list[str]:
    """What the captured gradients say of differences: a sentence for each place where they may come from."""
    crossed = words.listed([f"{name} ({site})" for name, site in functions.items()])
    where = {
        Origin.BACKWARD: "its gradients are added up as all others are, so backward itself gave others than those of "
        f"one process{f'; activations cross the ranks in {crossed}' if crossed else ''}",
        Origin.PARTS_ALONE: "each rank steps on its part of the gradient; the parts added up are that of one process",
        Origin.OWN_DIVISOR: "the gradient is right, and divided by fewer ranks than that of all others",
        Origin.PARTS_AVERAGED: "the ranks average their parts of the gradient, which added up are that of one process",
    }
    return [f"{words.listed(found[origin])}: {told}" for origin, told in where.items() if found.get(origin)]


def absent(names: Sequence[str]) -> str:
    """Parameters that the job gives no update, and one process does."""
    which = names[0] if len(names) == 1 else f"{len(names)} parameters ({words.listed(names)})"
    return f"{which}: no gradient reaches the optimizer, and one does in a single process."


def smaller_type(apart: Mapping[str, Mapping[int, float]]) -> str:
    """A difference that another type would explain."""
    worst = max(value for by_rank in apart.values() for value in by_rank.values())
    return (
        f"{len(apart)} parameters differ from one process by {worst:.1%} at most, as much as arithmetic in bfloat16 "
        "may: let the objective compute in the type that the job computes in (torch.autocast, model.to(dtype))"
    )


def agrees(steps: Sequence[int], worst: float | None, count: int) -> str:
    """What was compared, and how near it was."""
    which = f"step {steps[0]} was" if len(steps) == 1 else f"steps {', '.join(map(str, steps))} were"
    near = "" if worst is None else f"; the rest that no coefficient explains: {worst:.1e} of the update"
    return f"{which} compared with one process on the same batches, on {count} parameters{near}"


def noise(names: Sequence[str]) -> str:
    """Parameters that could not be compared."""
    return (
        f"{len(names)} parameters were not compared, whose gradient is rounding and hardly more (it changes by more "
        f"than a tenth where the weights differ by one rounding): {words.listed(names)}"
    )


def _ranks(by_rank: Mapping[int, float]) -> str:
    values = list(by_rank.values())
    if max(values) - min(values) <= 0.005:
        return _percent(max(values))
    return " and ".join(f"{_percent(value)} on rank {rank}" for rank, value in list(by_rank.items())[:4])


def _percent(value: float) -> str:
    return f"{value:.1%}" if value < 0.1 else f"{value:.0%}"


def _times(value: float) -> str:
    if 0 < abs(value - 1) < 0.005:
        return f"{value:.7f}".rstrip("0")
    return f"{value:.2f}" if abs(value) >= 0.01 or value == 0 else words.number(value)
