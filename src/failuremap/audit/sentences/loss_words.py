"""The sentences of a verdict on losses that no function of PyTorch made, or that several lines make."""

from __future__ import annotations

from collections.abc import Sequence


def weights_from_logits(function: str, site: str, at_hidden: bool = False) -> str:
    """How the weights of a loss were found whose inside is hidden."""
    if at_hidden:
        return (
            f"weights read from the gradient at the hidden states ({function}, backward at {site}): in the rows that "
            "were computed again it is w times that of a cross entropy behind the head"
        )
    return (
        f"weights read from the gradient at the logits ({function}, backward at {site}): in every row it is "
        "w (softmax - onehot)"
    )


def apart(sentence: str) -> str:
    """What is said of units that have numbers of the script's own as well.

    Example:
        >>> apart("A token on rank 0 weighs 2.00 times a token on rank 1.")
        "Apart from the script's own number for each, a token on rank 0 weighs 2.00 times a token on rank 1."
    """
    return f"Apart from the script's own number for each, {sentence[0].lower()}{sentence[1:]}"


def weights_apart(site: str, unit: str) -> str:
    """How the weights of a loss were found whose units have numbers of the script's own."""
    return (
        f"weights read from the gradient at the losses of the single {unit}s (backward at {site}), apart from the "
        f"script's own number for each {unit}, such as an advantage: of these nothing is concluded"
    )


def tokens_in_rows(site: str, unit: str) -> str:
    """Tokens were asked for, and the script averages within rows first."""
    return (
        f"tokens cannot be counted at the backward of {site}: the script reduces each {unit} to one number first. "
        f"Audit with --unit {unit}, or mark failuremap.unit_losses(losses)"
    )


def factor_apart(noun: str, promise: str) -> str:
    """A total that may be made up for in numbers that the audit doesn't know."""
    other = "sum" if promise == "mean" else "mean"
    return (
        f"apart from the script's own number for each {noun}, such as an advantage, the update is not the {promise} "
        f"over all {noun}s, and a factor in these numbers would make up for it: mark failuremap.unit_losses(losses) "
        f"where there is none, or audit with --promise {other} if that is meant"
    )


def factor_inside(total: float, function: str, noun: str) -> str:
    """A known fault leaves the same total as a factor in a function whose inside is hidden."""
    return (
        f"together all {noun}s weigh {total:.4g} of the mean by the gradient at the logits, which holds any factor "
        f"inside {function} as well, such as a temperature: mark its result with failuremap.unit_losses(losses)"
    )


def unmoved(function: str) -> str:
    """A function's backward gives what it would if 1 had reached it."""
    return (
        f"; another gradient than 1 reached {function}, and its units weigh as if 1 had: see whether its backward "
        "multiplies by the gradient that it gets (wrong-backward-scale)"
    )


def temperature(total: float, noun: str) -> str:
    """A known fault leaves the same total as the square of a temperature, by which distillation multiplies its loss."""
    return (
        f"together all {noun}s weigh {total:.4g} of the mean: as much as the square of a temperature of "
        f"{round(total**0.5)}, by which distillation multiplies its loss, and as a factor too many; audit on another "
        "number of ranks"
    )


def rows_added_up(total: float, noun: str) -> str:
    """A known fault leaves the same total as a loss that adds up the numbers of a row."""
    return (
        f"together all {noun}s weigh {total:.4g} of the mean, and so many numbers of the loss stand in a row: "
        "a loss that adds up each row is right, a factor too many in the update is not, and both look alike; "
        "audit on another number of ranks"
    )


def right_by_terms(noun: str, count: int) -> str:
    """Nothing is wrong in any term of a loss; what the terms weigh against each other only the script can know."""
    return f"Every {noun} weighs the same in each of the {count} terms of the loss; the script weighs the terms itself."


def may_be_summed(count: int, noun: str) -> str:
    """Terms that are averaged and ranks that are summed."""
    return (
        f"the gradients of the {count} ranks are summed, and the loss has {count} terms over the same {noun}s, each "
        f"with a weight of 1/{count}: whether that undoes the sum, or averages the terms, cannot be told; audit on "
        "another number of ranks"
    )


def calls_as_terms(lines: Sequence[str]) -> str:
    """Calls of one line with weights of their own."""
    return f"{' and '.join(lines)}: read as terms with weights of their own, as of several heads, and not as one mean"


def taken_for_terms(names: Sequence[str], fault: str) -> str:
    """Losses at several lines, each of which is a mean."""
    return f"{' and '.join(names)} are read as terms of their own; if they are micro-batches of one loss: {fault}"


def one_or_several(names: Sequence[str], *, uneven: bool) -> str:
    """Losses at several lines that are right as terms with a weight each, and wrong as micro-batches."""
    what = "units do not weigh the same" if uneven else "the update is no mean"
    return (
        f"{' and '.join(names)} may be micro-batches of one loss, and then {what}, or terms of their own with a weight "
        "each, and then nothing is wrong. Call the loss at one line if it is one; otherwise add up the terms and call "
        "backward once"
    )


def lacking(name: str, ranks: Sequence[int], total: float) -> str:
    """A term that some ranks do without, and that is averaged over all of them."""
    who = f"rank {ranks[0]} has" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks[:4]))} have"
    return (
        f"{name}: {who} none of it and {'takes' if len(ranks) == 1 else 'take'} a share of the mean over the ranks, so "
        f"its units weigh {total:.3g} of their mean together: right if a task has the weight of the ranks that run it, "
        "wrong if each unit should weigh the same at every step: divide by the units of all ranks then"
    )


def multiplied(total: float, noun: str) -> str:
    """A known fault leaves the same total as a number that the script multiplies its loss by."""
    return (
        f"together all {noun}s weigh {total:.4g} of the mean, and the script multiplies its loss by {total:.4g}: right "
        "if that is a weight, and not if it is meant to divide by ranks or micro-batches, which is done already; both "
        "look alike: audit on another number of ranks, or without the weight"
    )
