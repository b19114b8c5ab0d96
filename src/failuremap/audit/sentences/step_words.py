"""The sentences of a verdict on how far the ranks step: learning rates, steps left out, norms that clip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.sentences import words

if TYPE_CHECKING:
    from failuremap.audit.extent import Extent

Floats = NDArray[np.float64]

DIFFER_BY_ROUNDING = (
    "the weights differ between the ranks, by rounding alone, as where each rank adds something of its own to them and "
    "takes it away again: the difference grows from step to step; put copies back instead"
)
WEIGHTS_MIXED = (
    "the ranks step on their own gradients, and send as many numbers as their weights have between the steps: they "
    "seem to mix their weights (as gossip, or decentralised, SGD does), which do not become equal"
)
# relative difference up to which coefficients count as the same
_SAME = 0.01


def rates_apart(rates: Mapping[int, float], names: Sequence[str], among: Extent) -> str:
    """The ranks step with learning rates of their own."""
    shown = ", ".join(f"{rate:.6g} on rank {rank}" for rank, rate in sorted(rates.items())[:4])
    which = f" on {among.of(len(names))} ({words.listed(names)})" if len(names) < among.read else ""
    return f"The ranks step with different learning rates{which}: {shown}."


def copies_in_norm(ratio: float, copies: int) -> str:
    """The norm that clips is that of several copies of the gradient."""
    return (
        f"The norm that the gradient is clipped by is {ratio:.4g} times its own: the squares of {copies} copies are "
        f"added up, and the update is clipped to 1/{ratio:.4g} of the limit."
    )


def clipped_while_scaled(scale: float) -> str:
    """The gradient is clipped with a GradScaler's factor in it."""
    return (
        f"The gradient is clipped while it still holds the factor {scale:g} of the GradScaler: the update is clipped "
        f"to 1/{scale:g} of the limit. scaler.unscale_(optimizer) has to come before the clip."
    )


def left_out_alone(skipped: Sequence[tuple[int, int]], differ: str) -> str:
    """Ranks left steps out that the others took, and hold other weights since."""
    shown = "; ".join(f"rank {rank} leaves out step {step}" for rank, step in skipped[:3])
    return f"Not all ranks take the same steps: {shown}. {differ}"


def ranks_apart(vectors: Sequence[Floats]) -> str:
    """Ranks step on different combinations, or on one combination that each scales by itself.

    Example:
        >>> ranks_apart([np.array([0.5, 0.5]), np.array([0.2, 0.2])])
        'Each rank scales the same sum of gradients by a factor of its own: 0.4 times as much on one as on another.'
    """
    first, second = vectors[:2]
    square = float(first @ first)
    factor = float(first @ second) / square if square else 0.0
    if factor > 0 and float(np.abs(second - factor * first).max()) <= _SAME * float(np.abs(second).max()):
        return (
            "Each rank scales the same sum of gradients by a factor of its own: "
            f"{words.number(factor)} times as much on one as on another."
        )
    return words.ranks_apart(vectors)


def groups_apart(groups: Sequence[Sequence[int]]) -> str:
    """Groups of ranks, each of which adds up its own gradients and no others.

    Example:
        >>> groups_apart([[0, 1], [2, 3]])
        'The ranks are added up in groups that are never added up with each other: ranks 0, 1; ranks 2, 3.'
    """
    shown = "; ".join(map(_ranks, groups[:4])) + (f"; and {len(groups) - 4} more groups" if len(groups) > 4 else "")
    return f"The ranks are added up in groups that are never added up with each other: {shown}."


def normalised(norm: float, steps: int) -> str:
    """A factor that gives every update one norm."""
    return f"the script gives the update a norm of {words.number(norm)} at every step ({steps} steps)"


def momentum(factor: float) -> str:
    """Each update holds the one before, times a factor that no reduction leaves."""
    return f"each update holds {words.number(factor)} times the one before, as momentum that the script adds itself"


def momentum_at_times(least: float, most: float, count: int, steps: int) -> str:
    """Some updates hold the one before."""
    shown = list(dict.fromkeys(map(words.number, (least, most))))
    return (
        f"the updates of {count} of {steps} steps hold {' to '.join(shown)} times the one before: momentum that the "
        "script adds itself, or gradients that it does not always zero"
    )


def end_apart(names: Sequence[str]) -> str:
    """Ranks of which no step was seen hold different weights at the end."""
    return (
        f"at the end the ranks hold different weights ({words.listed(names)}): where they are copies of one model, "
        "something keeps them apart"
    )


def agreeing(groups: Sequence[Sequence[int]]) -> str:
    """Which ranks hold the same weights, where there are more than two ranks and some agree; else ''.

    Example:
        >>> agreeing([[0, 1, 2], [3]])
        ' Rank 3 differs from the others.'
        >>> agreeing([[0, 1], [2, 3]])
        ' Ranks 0, 1 agree with each other, and ranks 2, 3.'
    """
    sizes = sorted(map(len, groups))
    if not sizes or sizes[-1] < 2:
        return ""
    if len(sizes) == 2 and sizes[0] == 1:
        alone = next(group for group in groups if len(group) == 1)
        return f" Rank {alone[0]} differs from the others."
    together = [_ranks(group) for group in groups if len(group) > 1]
    alone_too = [group[0] for group in groups if len(group) == 1]
    rest = f"; alone: {_ranks(alone_too)}" if alone_too else ""
    return f" R{together[0][1:]} agree with each other{''.join(f', and {others}' for others in together[1:])}{rest}."


def _ranks(ranks: Sequence[int], most: int = 8) -> str:
    shown = ", ".join(map(str, ranks[:most])) + (f" and {len(ranks) - most} more" if len(ranks) > most else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"
