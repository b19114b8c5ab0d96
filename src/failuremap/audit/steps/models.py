"""Ranks that run one model together (tensor parallel): their passes are one contribution, told by the first of them.

What each computes of a gradient is a shard of it, a term of a sum, or all of it. The parts add up; what is whole is
the same on all. Of a plain parameter nothing says which: where its gradients differ, they are taken for terms of a sum.

Legend: K contributions, R ranks, L numbers of all parameters, G ranks of one model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.fitting.fit import EPSILON, tolerance
from failuremap.audit.sentences import shard_words
from failuremap.audit.steps.story import Backward, Rank

if TYPE_CHECKING:
    from failuremap.audit.steps.windows import Step

Floats = NDArray[np.float64]

# relative distance of the ranks' gradients from which they are terms of a sum; below it sums ran in another order
_TERMS = 0.02
# relative distance of the ranks' updates from which they are different ones
_UNLIKE = 1e-4


def one_rank_a_model(step: Step, ranks: Sequence[Rank]) -> Step:
    """The step as if the first rank of each model had run it alone; unchanged where each rank runs its own."""
    models = _models(step, ranks)
    if all(len(model) == 1 for model in models):
        return step
    assert step.sharding is not None
    by_rank = {rank.rank: rank for rank in ranks}
    joiners = [_Model(step, [by_rank[rank] for rank in model]) for model in models]
    leaders = [step.ranks.index(model[0]) for model in models]
    kept = [k for joiner in joiners for k in joiner.leading]
    sharding = replace(
        step.sharding,
        own_parts={name: factor for joiner in joiners for name, factor in joiner.own_parts.items()},
        reasons=[*step.sharding.reasons, *dict.fromkeys(reason for joiner in joiners for reason in joiner.reasons)],
        group_sizes=step.sharding.group_sizes | set(map(len, models)),
    )
    return replace(
        step,
        ranks=[step.ranks[row] for row in leaders],
        parts=[step.parts[row] for row in leaders],
        keys=[step.keys[k] for k in kept],
        backwards=[backward for joiner in joiners for backward in joiner.backwards],
        contributions_KL=np.concatenate([joiner.contributions_ML for joiner in joiners]),
        altered_KL=None,
        updates_RL=step.updates_RL[leaders],
        present_RP=step.present_RP[leaders],
        sharding=sharding,
    )


def _models(step: Step, ranks: Sequence[Rank]) -> list[tuple[int, ...]]:
    """The ranks of the step, sorted into models: those whose backward passes give parts of one gradient."""
    names = {parameter.name for parameter in step.parameters}
    groups = {rank.rank: {rank.rank} for rank in ranks}
    for rank in ranks:
        for (of, name), layout in rank.layouts.items():
            if of == "gradient" and name in names:
                together = set().union(*(groups[other] for other in layout.mesh if other in groups))
                for other in together:
                    groups[other] = together
    return sorted({tuple(sorted(group)) for group in groups.values()})


class _Model:
    """The passes and the updates of the ranks that run one model."""

    def __init__(self, step: Step, ranks: Sequence[Rank]) -> None:
        self.step, self.ranks = step, ranks
        self.reasons: list[str] = []
        self.own_parts: dict[str, float] = {}
        numbers = [rank.rank for rank in ranks]
        passes = [[k for k, (rank, _) in enumerate(step.keys) if rank == number] for number in numbers]
        self.leading = passes[0]
        self.contributions_ML = step.contributions_KL[self.leading]
        self.backwards = [step.backwards[k] for k in self.leading]
        if len(ranks) == 1:
            return
        if len(set(map(len, passes))) > 1:
            self.reasons.append(shard_words.passes_differ(numbers, list(map(len, passes))))
            return
        together = [[step.backwards[k] for k in same] for same in zip(*passes, strict=True)]
        self.backwards = [self._one_backward(same, numbers) for same in together]
        self._updates_GL = step.updates_RL[[step.ranks.index(number) for number in numbers]]
        self._add_up(np.array([step.contributions_KL[own] for own in passes]))

    def _one_backward(self, same: list[Backward], numbers: list[int]) -> Backward:
        """The pass of all ranks: the first that tells of losses, which must be the same on all."""
        told = [backward for backward in same if backward.losses or backward.counts]
        if len({backward.fingerprints for backward in told}) > 1:
            self.reasons.append(shard_words.targets_differ(numbers))
        return told[0] if told else same[0]

    def _add_up(self, gradients_GML: Floats) -> None:
        numbers = [rank.rank for rank in self.ranks]
        for p, parameter in enumerate(self.step.parameters):
            columns = slice(int(self.step.starts[p]), int(self.step.starts[p + 1]))
            layout = self.ranks[0].layouts.get(("gradient", parameter.name))
            of_all = gradients_GML[:, :, columns]
            if layout is not None and len(layout.parts) > 1:
                members = [numbers.index(rank) for rank in layout.parts if rank in numbers]
                self.contributions_ML[:, columns] = of_all[members].sum(axis=0)
            elif _apart(of_all, _TERMS):
                self.contributions_ML[:, columns] = of_all.sum(axis=0)
                factor = _own_factor(of_all, self._updates_GL[:, columns], parameter.dtype)
                if factor is not None and not self.reasons:
                    self.own_parts[parameter.name] = factor
                    continue
            if _apart(self._updates_GL[:, columns], max(_UNLIKE, 20 * EPSILON.get(parameter.dtype, 6e-8))):
                self.reasons.append(shard_words.updates_differ(parameter.name, numbers))


def _apart(rows: Floats, limit: float) -> bool:
    """Whether some rank has another vector than the first, by more than a part of their size."""
    flat, apart = rows.reshape(-1), (rows - rows[:1]).reshape(-1)
    return float(apart @ apart) > limit**2 * float(flat @ flat)


def _own_factor(gradients_GML: Floats, updates_GL: Floats, dtype: str) -> float | None:
    """f where each rank steps on f times its own part of the gradient; None where some do not."""
    factors = []
    for own_L, update_L in zip(gradients_GML.sum(axis=1), updates_GL, strict=True):
        square = float(own_L @ own_L)
        if square == 0:
            continue
        factor = float(own_L @ update_L) / square
        size = max(float(update_L @ update_L), factor**2 * square) ** 0.5
        apart = update_L - factor * own_L
        if float(apart @ apart) ** 0.5 > tolerance(dtype, 1) * size:
            return None
        factors.append(factor)
    if not factors or max(factors) - min(factors) > 0.01 * max(map(abs, factors)) or max(map(abs, factors)) == 0:
        return None
    return sum(factors) / len(factors)
