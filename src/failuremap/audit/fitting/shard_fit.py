"""Each rank's shards of an update fitted alone, on the sampled elements that it holds.

Legend: K contributions, V vectors, L numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.fitting.fit import Products, fit
from failuremap.audit.steps.joining import Shard

if TYPE_CHECKING:
    from failuremap.audit.steps.windows import Step

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Ruled:
    """What one rank's shards follow."""

    rank: int
    coefficients_K: Floats
    errors_K: Floats
    others: list[Shard]
    """Those that follow another rule, or none."""


def shard_rules(step: Step, classes: Sequence[Sequence[int]], parameters: Mask) -> list[Ruled]:
    """The rule of each rank's shards, of the ranks that hold enough numbers."""
    sharding = step.sharding
    if sharding is None:
        return []
    by_rank: dict[int, list[Shard]] = {}
    for shard in sharding.shards:
        if parameters[shard.parameter] and len(shard.columns):
            by_rank.setdefault(shard.rank, []).append(shard)
    rows = {rank: row for row, rank in enumerate(sharding.ranks)}
    members = [same[0] for same in classes]
    found = (_rule(step, members, shards, sharding.updates_RL[rows[rank]]) for rank, shards in sorted(by_rank.items()))
    return [ruled for ruled in found if ruled is not None]


def explained_by_shard(step: Step, classes: Sequence[Sequence[int]], parameters: Mask) -> bool:
    """Whether each rank's shards follow a rule, up to the rounding of their own type."""
    found = shard_rules(step, classes, parameters)
    return len(found) > 1 and not any(ruled.others for ruled in found)


def _rule(step: Step, members: Sequence[int], shards: Sequence[Shard], update_L: Floats) -> Ruled | None:
    vectors_VL = np.concatenate([step.contributions_KL[members], update_L[None]])
    columns = np.concatenate([shard.columns for shard in shards])
    starts = np.cumsum([0] + [len(shard.columns) for shard in shards])
    parameters = [step.parameters[shard.parameter] for shard in shards]
    dtypes, sizes = [parameter.dtype for parameter in parameters], [len(shard.columns) for shard in shards]
    products = Products(vectors_VL[:, columns], starts, range(len(vectors_VL)), dtypes, sizes)
    if int(products.row_counts[products.live].sum()) < 2 * len(members) + 2:
        return None
    explained = fit(products, range(len(members)), len(members), products.live, may_round=False)
    if not explained.clusters:
        return Ruled(shards[0].rank, np.zeros(len(members)), np.zeros(len(members)), list(shards))
    main = explained.clusters[0]
    rule = main.solution
    others = [shard for shard, live, fits in zip(shards, products.live, main.parameters, strict=True) if live > fits]
    return Ruled(shards[0].rank, rule.coefficients, rule.errors, others)
