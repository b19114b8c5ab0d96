"""Which tensor is the copy of which parameters, given which equal which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor

from failuremap.audit.capture.held.likeness import Likeness, Placed
from failuremap.audit.capture.watching import Watched


@dataclass(frozen=True)
class Match:
    """What one tensor is a copy of."""

    holder: Tensor
    parts: Placed
    by_order: bool = False
    """Whether it equals several parameters, and is that of one by the order of the others alone."""


def matches(holders: Sequence[Tensor], likeness: Likeness) -> list[Match]:
    """The tensors that are copies of parameters which nothing else equals.

    Args:
        holders: Tensors in the order in which an optimizer has them.
        likeness: The parameters, in the order of the model.
    """
    found = list(_proposals(holders, likeness))
    times = Counter(watched.id for match in found for watched, _ in match.parts)
    return [match for match in found if all(times[watched.id] == 1 for watched, _ in match.parts)]


def _proposals(holders: Sequence[Tensor], likeness: Likeness) -> Iterator[Match]:
    alike: dict[tuple[Watched, ...], list[Tensor]] = {}
    for holder in holders:
        alike.setdefault(tuple(likeness.equal_to(holder)), []).append(holder)
    yield from _flat(alike.pop((), []), likeness)
    alone = [(group[0], equal[0]) for equal, group in alike.items() if len(equal) == len(group) == 1]
    for equal, group in alike.items():
        if len(equal) == len(group) == 1:
            yield from (Match(holder, [(equal[0], 0)]) for holder in group if not _says_nothing(holder))
        elif len(equal) == len(group) and (order := _direction(alone, group[0], holders, likeness)):
            pairs = zip(group, equal[::order], strict=True)
            yield from (Match(holder, [(watched, 0)], by_order=True) for holder, watched in pairs)
        else:  # proposed for each, so that nothing else is taken for a copy of them
            yield from (Match(holder, [(watched, 0) for watched in equal]) for holder in [group[0], *group])


def _direction(
    alone: Sequence[tuple[Tensor, Watched]], like: Tensor, holders: Sequence[Tensor], likeness: Likeness
) -> int:
    """1 where copies that equal one parameter lie in the order of these, -1 in the reverse, 0 in neither.

    Vectors are looked at alone where there are some, as an optimizer may have them in a group of their own.
    """
    places = {id(holder): place for place, holder in enumerate(holders)}
    order = {watched.id: place for place, watched in enumerate(likeness.parameters)}
    same = [pair for pair in alone if (pair[0].dim() > 1) == (like.dim() > 1)]
    found = sorted((places[id(holder)], order[watched.id]) for holder, watched in (same if len(same) > 1 else alone))
    steps = {1 if later[1] > earlier[1] else -1 for earlier, later in pairwise(found)}
    return 0 if len(steps) > 1 else next(iter(steps), 1)


def _says_nothing(holder: Tensor) -> bool:
    """Whether neither the numbers of a copy nor its gradient tell it from another: alike numbers, and zeros."""
    assert holder.grad is not None
    return not holder.grad.any() and bool((holder == holder.reshape(-1)[:1]).all())


def _flat(holders: Sequence[Tensor], likeness: Likeness) -> Iterator[Match]:
    """Tensors in which several parameters lie one after another."""
    for holder in holders:
        placed = likeness.laid_out(holder)
        if len(placed) > 1 or (placed and placed[0][0].sketch.size < holder.numel()):
            yield Match(holder, placed)
