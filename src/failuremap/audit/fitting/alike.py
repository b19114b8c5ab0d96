"""What is the same among the vectors of one step: contributions that are equal, and ranks that step alike.

Legend: K contributions, R ranks, L numbers of all parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.fitting.fit import EPSILON
from failuremap.audit.steps.windows import Step

Floats = NDArray[np.float64]


def classes_of(step: Step) -> list[list[int]]:
    """Contributions that are the same vector cannot be told apart: one class, whose coefficient is their sum."""
    epsilon = 20 * max((EPSILON.get(p.dtype, 6e-8) for p in step.parameters), default=6e-8)
    rows_KL = step.contributions_KL
    classes: dict[int, list[int]] = {}
    for k, near in enumerate(_perhaps_near(rows_KL, epsilon)):
        size = _length(rows_KL[k])
        leaders = (j for j in near if j in classes and _near(rows_KL[j], rows_KL[k], epsilon * size))
        found = next(leaders, None) if size > 0 else None
        if found is None:
            classes[k] = [k]
        else:
            classes[found].append(k)
    return list(classes.values())


def multiples(step: Step, some: Sequence[int]) -> set[int]:
    """Those of some contributions that are a multiple of another one of their rank, as of one batch's mean and sum."""
    epsilon = 20 * max((EPSILON.get(p.dtype, 6e-8) for p in step.parameters), default=6e-8)
    rows_KL, ranks = step.contributions_KL, [rank for rank, _ in step.keys]
    found = set[int]()
    for k in some:
        others = (rows_KL[j] for j, rank in enumerate(ranks) if rank == ranks[k] and j not in some)
        size = _length(rows_KL[k])
        if size > 0 and any(_near(_onto(rows_KL[k], other), rows_KL[k], epsilon * size) for other in others):
            found.add(k)
    return found


def _onto(row: Floats, other: Floats) -> Floats:
    """The multiple of another vector that is nearest."""
    square = float(np.einsum("l,l->", other, other))
    nearest: Floats = other * (float(np.einsum("l,l->", row, other)) / square if square else 0.0)
    return nearest


def _perhaps_near(rows_KL: Floats, epsilon: float) -> Iterator[list[int]]:
    """For each row those before it that may be as near as epsilon times its length, in order.

    Along one direction of unit length no distance is longer than it is.
    """
    drawn: Floats = np.random.default_rng(0).normal(size=(rows_KL.shape[1],))
    along_K: Floats = rows_KL @ (drawn / max(_length(drawn), 1e-300))
    order = np.argsort(along_K, kind="stable")
    reach_K = epsilon * np.sqrt(np.einsum("kl,kl->k", rows_KL, rows_KL))
    first = np.searchsorted(along_K[order], along_K - reach_K, side="left")
    last = np.searchsorted(along_K[order], along_K + reach_K, side="right")
    for k in range(len(rows_KL)):
        yield sorted(int(j) for j in order[first[k] : last[k]] if j < k)


def _near(first: Floats, second: Floats, distance: float) -> bool:
    return _length(first - second) <= distance


def _length(vector: Floats) -> float:
    # not np.linalg.norm: BLAS starts a thread a core for it, which then spins, at fifty times the cost
    return float(np.sqrt(np.einsum("l,l->", vector, vector)))


def alike(step: Step) -> list[list[int]]:
    """Ranks (as rows of updates_RL) that step on the same update, parameter by parameter."""
    groups: list[list[int]] = []
    for row in range(len(step.ranks)):
        for group in groups:
            first, second = step.updates_RL[group[0]], step.updates_RL[row]
            apart = np.add.reduceat((first - second) ** 2, step.starts[:-1])
            size = np.add.reduceat(first**2 + second**2, step.starts[:-1])
            if (apart <= 1e-10 * size).all() and (step.present_RP[group[0]] == step.present_RP[row]).all():
                group.append(row)
                break
        else:
            groups.append([row])
    return groups
