"""Corrects a combination that does not explain an update: which ranks, micro-batches or contributions weigh otherwise.

What fits the rest best gets a coefficient of its own, one after another: orthogonal matching pursuit (Pati, Rezaiifar
and Krishnaprasad 1993).

Legend: K contributions, C candidates for a coefficient of their own, D combinations, L numbers of all parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from failuremap.audit.steps.windows import Step

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_CORRECTIONS = 8
# part of the update that may be left unexplained before there is nothing more to find
_NOTHING = 1e-6


def pursued(step: Step, row: int, parameters: Mask, weights_DK: Floats) -> Floats:
    """Lists the best of some combinations, and the parts of it that have coefficients of their own: rows over K.

    Args:
        step: The step; all its vectors are finite.
        row: Whose update.
        parameters: Where it should be explained.
        weights_DK: The combinations to start from.
    """
    update = step.updates_RL[row]
    square_P = np.add.reduceat(update**2, step.starts[:-1])
    scale_P = np.where(parameters & (square_P > 0), 1 / np.sqrt(np.where(square_P > 0, square_P, 1.0)), 0.0)
    scale_L = np.repeat(scale_P, np.diff(step.starts))
    chosen_L = scale_L > 0
    contributions_KL, goal_L = step.contributions_KL[:, chosen_L] * scale_L[chosen_L], (update * scale_L)[chosen_L]
    simple = max(weights_DK, key=lambda weights_K: float(_gains((weights_K @ contributions_KL)[None], goal_L)[0]))
    parts = _Parts(step, simple, contributions_KL)
    rows, vectors, rest_L = [simple], [simple @ contributions_KL], goal_L
    for _ in range(_CORRECTIONS + 1):
        solved, *_ = np.linalg.lstsq(np.array(vectors).T, goal_L, rcond=None)
        rest_L = goal_L - solved @ np.array(vectors)
        if float(rest_L @ rest_L) <= _NOTHING**2 * float(goal_L @ goal_L):
            break
        rows.append(parts.best(rest_L))
        vectors.append(rows[-1] @ contributions_KL)
    return np.array(rows)


class _Parts:
    """The parts of one combination that may have a coefficient of their own: ranks, micro-batches, contributions."""

    def __init__(self, step: Step, weights_K: Floats, contributions_KL: Floats) -> None:
        self.weights_K = weights_K
        weighted_KL = weights_K[:, None] * contributions_KL
        self.places = [np.array([key[axis] for key in step.keys]) for axis in (0, 1)]
        self.places.append(np.arange(len(step.keys)))
        self.sums = [_summed(weighted_KL, place_K) for place_K in self.places[:2]] + [contributions_KL]

    def best(self, rest_L: Floats) -> Floats:
        """The part that takes most of the rest away, as weights of all contributions."""
        gains = [_gains(sums_CL, rest_L) for sums_CL in self.sums]
        kind = max(range(len(gains)), key=lambda index: float(gains[index].max(initial=0.0)))
        value = np.unique(self.places[kind])[int(gains[kind].argmax())]
        return np.where(self.places[kind] == value, self.weights_K if kind < 2 else 1.0, 0.0)


def _summed(rows_KL: Floats, place_K: NDArray[np.int64]) -> Floats:
    values, index = np.unique(place_K, return_inverse=True)
    summed = np.zeros((len(values), rows_KL.shape[1]))
    np.add.at(summed, index, rows_KL)
    return summed


def _gains(vectors_CL: Floats, rest_L: Floats) -> Floats:
    """How much of the square of the rest each vector takes away by itself."""
    squares = np.einsum("cl,cl->c", vectors_CL, vectors_CL)
    return np.where(squares > 0, (vectors_CL @ rest_L) ** 2 / np.where(squares > 0, squares, 1.0), 0.0)
