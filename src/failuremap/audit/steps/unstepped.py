"""Parameters that get gradients and that no step takes: replaced ones, removed gradients, other processes' training."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from failuremap.audit.sentences import words
from failuremap.audit.steps.story import Backward, Part, Rank

# the name of a parameter where another one has the same: "head.weight #2"
_AGAIN = re.compile(r"(.+) #\d+")


def replaced(ranks: Sequence[Rank]) -> list[str]:
    """Why nothing can be called right where parameters were replaced and the optimizer steps on the old ones.

    A new one gets gradients from some pass on, the old one none from there on, and no optimizer steps on the new one.
    """
    names = sorted(set[str]().union(*map(_replaced_on, ranks)))
    if not names:
        return []
    which = f"{words.listed(names)} {'was' if len(names) == 1 else 'were'} replaced during training"
    new = "the new one" if len(names) == 1 else "the new ones"
    return [f"{which}, and no optimizer steps on {new}: add_param_group, or make the optimizer anew"]


def _replaced_on(rank: Rank) -> set[str]:
    again = {match[0]: match[1] for p in rank.parameters.values() if (match := _AGAIN.fullmatch(p.name))}
    if not again:
        return set()
    stepped = {rank.parameters[id].name for part in rank.parts for id in part.ids}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for backward in (backward for part in rank.parts for backward in part.backwards):
        for name in _reached(rank, [backward]):
            first[name] = min(first.get(name, backward.id), backward.id)
            last[name] = max(last.get(name, backward.id), backward.id)
    return {
        old
        for new, old in again.items()
        if new in first and new not in stepped and old in stepped and last.get(old, -1) < first[new]
    }


def removed(ranks: Sequence[Rank]) -> list[str]:
    """Gradients that were there after backward, and not when the optimizer stepped on the others."""
    names = {name for rank in ranks for part in rank.parts if part.absent for name in _removed_before(rank, part)}
    if not names:
        return []
    many = "1 parameter" if len(names) == 1 else f"{len(names)} parameters"
    return [f"the gradient of {many} was removed between backward and a step: {words.listed(sorted(names))}"]


def _removed_before(rank: Rank, part: Part) -> set[str]:
    last = set(part.runs[-1]) if part.runs else set()
    return set(part.absent) & _reached(rank, (b for b in part.backwards if b.id in last))


def _reached(rank: Rank, backwards: Iterable[Backward]) -> set[str]:
    return {rank.parameters[id].name for backward in backwards for chunk in backward.chunks for id in chunk.ids}


def beside(folder: Path) -> list[str]:
    """What processes that ranks started did beside the training of the job, by the word that they left."""
    found = [
        int(match[1]) for path in folder.glob("beside-rank*.txt") if (match := re.match(r"beside-rank(\d+)", path.name))
    ]
    if not found:
        return []
    ranks = sorted(set(found))
    by = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:8]))}"
    many = "1 process that was" if len(found) == 1 else f"{len(found)} processes that were"
    told = f"{many} started by {by}, such as workers of a data loader, trained something of their own: "
    return [told + "that was not measured"]
