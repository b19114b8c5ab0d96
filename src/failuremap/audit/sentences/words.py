"""The sentences of a verdict. Nothing here decides anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from failuremap.catalogue.signs import Sign

if TYPE_CHECKING:
    from failuremap.audit.extent import Extent
    from failuremap.audit.faults import Asked
    from failuremap.audit.steps.windows import Key
    from failuremap.audit.weighing.balance import Balance
    from failuremap.audit.weighing.weigh import Term

OWN_RANK_ONLY = "Each rank steps on its own gradient alone: the ranks are never added up."
UNSYNCHRONISED_TAIL = "The micro-batches after the synchronised one stay on their own rank."
NOTHING = "Nothing was measured."
NOT_ENOUGH = "Not measured: what was seen is not enough for a verdict."
CANNOT_TELL = "Cannot tell whether the gradients are added up right."
NO_STEP = (
    "no optimizer step was seen: the audit watches torch.optim.Optimizer and its subclasses; does the script reach "
    "step(), or change its weights without one?"
)
UNREAD = "none of the parameters that were read took part in it"
NO_GRADIENT = (
    "no gradient of the stepped parameters came through autograd: it was made by hand or by torch.func, or the audit's "
    "hooks on the parameters were removed"
)
NOTHING_ARRIVES = "No gradient reaches the update: it is zero, and what backward computed is not."
ZEROED = "a step was made on gradients of zero, though backward computed others: they were zeroed before"
NO_UPDATE = (
    "no parameter had a gradient when the optimizer stepped: zeroed before, or never synchronised (fully_shard)?"
)
NOT_FINITE_LEFT_OUT = "set aside: a gradient over no unit that was not finite, and that no update holds"
LOCAL_SGD = "the ranks step on their own gradients and their weights are made equal later (as local SGD does)"


def article(noun: str) -> str:
    """'a token', 'an example'."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def contribution(rank: int, micro_batch: int) -> str:
    """'rank 1, micro-batch 0'."""
    return f"rank {rank}, micro-batch {micro_batch}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """'a, b, c and 4 more'."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def number(value: float) -> str:
    """Three significant digits, never in powers of ten where a person would not write them."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return f"{value:.2e}"


def uneven(balance: Balance, noun: str) -> str:
    """Who weighs how much more than whom."""
    weights, counted = balance.weights_K, np.flatnonzero(balance.counted_K)
    high = counted[np.argmax(weights[counted])]
    low = counted[np.argmin(weights[counted])]
    keys = balance.keys
    heavy, light = _places(balance, keys[high], keys[low])
    a = article(noun)
    if not np.isfinite(balance.ratio):
        return f"{a.capitalize()} {heavy} and {a} {light} pull in opposite directions."
    return f"{a.capitalize()} {heavy} weighs {_times(balance.ratio)} times {a} {light}."


def _times(ratio: float) -> str:
    return f"{ratio:.3f}" if ratio < 1.1 else f"{ratio:.2f}"


def _places(balance: Balance, high: Key, low: Key) -> tuple[str, str]:
    """Names the ranks alone, or the micro-batches alone, where the other does not matter."""
    weights, counted = balance.weights_K, balance.counted_K

    def alike(axis: int) -> bool:
        groups: dict[int, list[float]] = {}
        for key, weight, used in zip(balance.keys, weights, counted, strict=True):
            if used:
                groups.setdefault(key[axis], []).append(float(weight))
        return all(max(group) - min(group) <= 0.005 * max(abs(w) for w in group) for group in groups.values())

    if alike(0):
        return f"on rank {high[0]}", f"on rank {low[0]}"
    if alike(1):
        return f"in micro-batch {high[1]}", f"in micro-batch {low[1]}"
    return f"on {contribution(*high)}", f"on {contribution(*low)}"


def total(balance: Balance, asked: Asked) -> str:
    """How far the whole update is from the promised one."""
    what = f"the {'sum' if asked.promise == 'sum' else 'mean'} over all {asked.noun}s"
    return f"The update is {number(balance.total)} times {what}."


def plain_sum(noun: str) -> str:
    """A sum that nothing divides."""
    return f"The update is the sum over all {noun}s, not the mean (--promise sum, if a sum is meant)."


def empty_takes_share(balance: Balance, noun: str) -> str:
    """A contribution without units is in the mean."""
    empty = [
        key
        for key, count, has in zip(balance.keys, balance.term.counts_K, balance.term.has_K, strict=True)
        if has and count == 0
    ]
    return (
        f"{contribution(*empty[0]).capitalize()} has no {noun} and takes its share of the mean: "
        f"the update is {number(balance.total)} times the mean over all {noun}s."
    )


def empty_is_nan(where: str, noun: str) -> str:
    """A contribution without units makes the update nan."""
    return f"The update is not finite: {where} has no {noun}, and its mean over nothing is nan."


def carried(current: bool, factor: float) -> str:
    """The step before is in this update."""
    if not np.isfinite(factor):
        return "The update holds contributions of the step before instead of this step's."
    if current:
        return f"The previous step's gradient is in the update again, {number(factor)} times: it was not zeroed."
    return f"The update is the previous step's gradient, {number(factor)} times."


def missing(signs: set[Sign], which: list[int], micro_batch_count: int) -> str:
    """Whose gradient never arrives."""
    if Sign.FIRST_RANK_ONLY in signs and len(which) > 1:
        return "All ranks step on one rank's gradient alone: the others never reach the update."
    if Sign.RANK_MISSING in signs:
        ranks = ", ".join(map(str, which))
        return f"The gradient of rank{'s' if len(which) > 1 else ''} {ranks} never reaches the update."
    if Sign.LAST_MICRO_BATCH_ONLY in signs:
        return f"Only the last of {micro_batch_count} micro-batches reaches the update."
    if Sign.FIRST_MICRO_BATCH_ONLY in signs:
        return f"Only the first of {micro_batch_count} micro-batches reaches the update."
    return f"Micro-batch {', '.join(map(str, which))} of {micro_batch_count} never reaches the update."


def ranks_apart(vectors: Sequence[Any]) -> str:
    """Ranks step on different combinations."""
    first, second = coefficients(vectors[0]), coefficients(vectors[1])
    return f"The ranks step on different updates: coefficients {first} on one, {second} on another."


def coefficients(values: Any, most: int = 8) -> str:
    """'0.5 0.5 0 ...'."""
    least = 1e-6 * max(map(abs, values), default=0.0)
    shown = " ".join(f"{value if abs(value) > least else 0:.4g}" for value in list(values)[:most])
    return shown + (" ..." if len(values) > most else "")


def local_parameters(names: list[str], among: Extent) -> str:
    """Some parameters are not reduced."""
    return f"{among.of(len(names))} are never added up over the ranks: {listed(names)}."


def other_parameters(names: list[str], among: Extent) -> str:
    """Some parameters follow another rule."""
    return f"{among.of(len(names))} follow another rule than the rest: {listed(names)}."


def scaled_parameters(names: list[str], factor: float) -> str:
    """Some parameters differ by a factor."""
    many = f"{len(names)} parameters" if len(names) > 1 else "1 parameter"
    if abs(factor) < 1e-6:
        return f"{many} got gradients and an update of zero: {listed(names)}."
    return f"{many} get{'' if len(names) > 1 else 's'} {number(factor)} times the update of the rest: {listed(names)}."


def unused_in_last(names: list[str], among: Extent) -> str:
    """Parameters that the last micro-batch did without are not reduced."""
    return (
        f"{among.of(len(names))} are not added up over all ranks, those that the window's last micro-batch "
        f"does not use: {listed(names)}."
    )


def over_elements(sizes: Mapping[str, int]) -> str:
    """Each tensor has a factor of its own, one over its elements."""
    small, large = min(sizes, key=lambda name: sizes[name]), max(sizes, key=lambda name: sizes[name])
    return (
        f"The update of each tensor is divided by its number of elements: that of {small} ({sizes[small]}) is "
        f"{number(sizes[large] / sizes[small])} times as large, against its gradient, as that of {large} "
        f"({sizes[large]})."
    )


def unexplained(names: list[str], among: Extent, hooks: list[str]) -> str:
    """No coefficients give this update."""
    hook = f"the communication hook {', '.join(hooks)} is lossy"
    why = hook if hooks else "something else changes it before the step"
    return (
        f"the update of {among.of(len(names))} ({listed(names)}) is no combination of the gradients "
        f"that backward computed: {why}"
    )


def same_data(ranks: list[int], same_targets: bool) -> str:
    """Equal gradients on several ranks; [] for all of them."""
    who = f"Ranks {', '.join(map(str, ranks))}" if ranks else "All ranks"
    why = ", on the same targets: they train on the same data" if same_targets else ""
    return f"{who} compute the same gradient{why}."


def batch_repeated(times: int) -> str:
    """One batch went backward several times in a window."""
    return f"one batch goes backward {times} times in a window, so its units count {times} times"


def scale_not_seen() -> str:
    """count(n) without anything to read the scale from."""
    return (
        "failuremap.count(n) says how many units there are, but not what they weigh: "
        "give the loss, too, before it is scaled: failuremap.count(n, loss), or mark failuremap.unit_losses(losses)"
    )


def clipped_before(keys: Sequence[Key], factors: Any) -> str:
    """Own clip factors by rank, or by micro-batch."""
    by_rank = {rank: factor for (rank, _), factor in zip(keys, factors, strict=True)}
    if all(abs(by_rank[rank] - factor) <= 1e-4 for (rank, _), factor in zip(keys, factors, strict=True)):
        shown = ", ".join(f"{number(factor)} on rank {rank}" for rank, factor in sorted(by_rank.items())[:4])
        return f"Each rank clips its own gradient before the ranks are added up: factors {shown}."
    shown = ", ".join(
        f"{number(factor)} on {contribution(*key)}" for key, factor in list(zip(keys, factors, strict=True))[:3]
    )
    return f"Gradients are clipped inside the window, before all micro-batches are there: factors {shown}."


def loss_not_seen(operations: list[str]) -> str:
    """No loss function was seen."""
    through = f" (backward went through {', '.join(operations[:3])})" if operations else ""
    return (
        f"the loss was not seen{through}: no loss function of torch.nn.functional made it. "
        "One line makes it seen: failuremap.unit_losses(loss_per_token) or failuremap.count(tokens, loss); "
        "or compare with one process: --reference ref.py:objective, in ref.py:  "
        "def objective(model, batch): return loss_sum, count"
    )


def part_not_seen(count: int, total_count: int, operations: list[str]) -> str:
    """A term of the loss was not seen."""
    through = f" ({', '.join(operations[:3])})" if operations else ""
    return (
        f"in {count} of {total_count} backward passes a term of the loss was not seen{through}; "
        "mark it with failuremap.unit_losses(losses) or failuremap.count(units, loss)"
    )


def own_weights(term: Term, asked: Asked) -> str:
    """The script weighs its units itself."""
    hint = "; if each sequence is meant to weigh the same, audit with --unit sequence"
    in_rows = term.rows_K is not None and asked.unit is None and asked.noun == "token"
    return (
        f"{term.name}: {asked.noun}s weigh differently inside one micro-batch, by the script's own weights, so shares "
        "cannot be compared; to leave these weights aside, mark the losses behind them: "
        f"failuremap.unit_losses(weighted){hint if in_rows else ''}"
    )


def own_factor(balance: Balance) -> str:
    """A total that no rule explains."""
    return f"{balance.term.name}: every unit weighs the same, with a factor of the script's own (or clipping)"


def not_separable(balance: Balance) -> str:
    """Coefficients with errors too large."""
    return (
        "the contributions are too much alike to tell their coefficients apart "
        f"(relative error {number(balance.relative_error)}); "
        "usual causes: the same data on several ranks, or a low-precision gradient; audit more steps"
    )


def replicas_differ(names: list[str], among: Extent, step: int | None) -> str:
    """Ranks hold different weights, from the start, from a later step or, as far as that is known, at the end."""
    which = f"{among.of(len(names))} differ ({listed(names)})."
    if step == 1:
        return f"The ranks do not start from the same weights: {which}"
    return f"The ranks no longer hold the same weights {f'from step {step} on' if step else 'at the end'}: {which}"


def right(noun: str, promise: str, factor: float | None) -> str:
    """Nothing is wrong."""
    if factor is not None:
        return f"Every {noun} weighs the same; the script has a factor of its own on the update ({number(factor)})."
    return f"Every {noun} weighs the same: the update is the {promise} over all {noun}s."


def clipped_by_hand(norm: float, steps: int) -> str:
    """A factor that keeps the norm at a limit."""
    return f"the update is clipped to a norm of {number(norm)} by the script itself ({steps} steps)"


def fixed_divisor(weight: float, noun: str) -> str:
    """A sum over a constant."""
    return (
        f"every {noun} weighs {number(weight)} at every step, however many there are: the update is a sum over all "
        f"{noun}s divided by something fixed, not their mean; if that is meant, audit with --promise sum"
    )


def departed(ranks: Sequence[int], total: float, asked: Asked) -> str:
    """The divisor counts ranks that have left."""
    who = f"rank {ranks[0]} takes" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} take"
    return (
        f"{who.capitalize()} no part any more and is still counted: the update is {number(total)} times the mean over "
        f"all {asked.noun}s of the ranks that are left. It may be meant so, for {article(asked.noun)} to weigh the "
        "same at every step."
    )


def borrowed(whose: str, total: float, asked: Asked) -> str:
    """The divisor is another count."""
    return (
        f"The update is divided by the {asked.noun}s of {whose}, not by those of the window: it is {number(total)} "
        f"times the mean over all {asked.noun}s."
    )


def grows_with_window(term: str, total: float, micro_batch_count: int) -> str:
    """A second term that lacks a division."""
    return (
        f"The weight of {term} goes by the micro-batches of the window ({number(total)} with {micro_batch_count} of "
        "them), and that of the main term does not: it lacks a division."
    )


def changing_factor(least: float, most: float, noun: str) -> str:
    """A factor with a course that nothing explains."""
    return (
        f"all {noun}s of a step weigh the same, but together {number(least)} to {number(most)} of the mean, from step "
        "to step; usual causes: a denominator that counts other units than the loss, a loss weight that changes"
    )


def too_coarse(error: float) -> str:
    """Errors that hide a small fault."""
    return (
        f"coefficients are known to {number(error)} only (gradients in a small type, or much alike), "
        "too coarse to call weights equal; audit more steps"
    )


def no_end(rank: int) -> str:
    """A trace without its end."""
    return (
        f"rank {rank} did not come to its end (killed, os._exit, or the disk was full): its trace has no end, "
        "so what it did last was not seen"
    )


def equal_counts(noun: str) -> str:
    """A run that could not have shown the commonest fault."""
    return (
        "all counts were equal: a rule that ignores counts would look the same; "
        f"audit batches of different {noun} counts, too"
    )
