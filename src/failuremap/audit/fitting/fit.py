"""Solves for the coefficients: update = sum over k of c_k g_k, from inner products of sketches alone.

Every tensor is scaled to unit size, so that tensors count alike; the inner products of all vectors (contributions,
updates, the previous step's) are taken once for each parameter, and any pooled fit is a sum over parameters.

Legend: K regressors (contributions), P parameters, V vectors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# relative size of one rounding in the gradient's type; float64 is sketched in float32
EPSILON = {"float64": 6e-8, "float32": 6e-8, "float16": 2.0**-12, "bfloat16": 2.0**-9}
# singular values below this part of the largest are noise of float32 sketches
_RANK_CUT = 1e-6
# rounding in a small type is not independent from number to number: more than this many do not help
_INDEPENDENT_ROWS = 256
_CONDITION_LIMIT = 500.0


def roundings_of(dtype: str, count: float) -> str:
    """Names what is rounded so many times as coarsely as one rounding of a type.

    Example:
        >>> epsilon(roundings_of("bfloat16", 1.5)) == 1.5 * EPSILON["bfloat16"]
        True
    """
    return f"{dtype} x {count:.4g}"


@functools.cache
def epsilon(dtype: str) -> float:
    """The relative size of one rounding in a type, or of several as `roundings_of` names them."""
    name, _, count = dtype.partition(" x ")
    return EPSILON.get(name, 6e-8) * float(count or 1)


def tolerance(dtype: str, regressor_count: int) -> float:
    """The relative residual up to which rounding explains a tensor: 3 (4 eps sqrt(1 + K) + 2e-6)."""
    return 3 * (4 * epsilon(dtype) * math.sqrt(1 + regressor_count) + 2e-6)


@dataclass(frozen=True)
class Solution:
    """Coefficients with their standard errors; an infinite error: cannot be told apart from the others."""

    coefficients: Floats
    errors: Floats
    residual: float
    condition: float


class Products:
    """Inner products of vectors, one matrix for each parameter."""

    def __init__(
        self,
        vectors_VL: Floats,
        starts: NDArray[np.int64],
        scaled_by: Sequence[int],
        dtypes: Sequence[str],
        sizes: Sequence[int],
    ) -> None:
        """Takes all inner products.

        Args:
            vectors_VL: Finite vectors over the numbers of all parameters.
            starts: Where each parameter begins, and the end.
            scaled_by: The vectors that say how large a tensor is.
            dtypes: The type of each parameter's gradient.
            sizes: Elements of each parameter; a sketch of fewer elements than rows holds no more than these.
        """
        self.dtypes = list(dtypes)
        self.row_counts = (
            np.minimum(np.diff(starts), np.asarray(sizes, dtype=np.int64)) if len(sizes) else np.diff(starts)
        )
        blocks = [vectors_VL[:, starts[p] : starts[p + 1]] for p in range(len(starts) - 1)]
        products = np.array([block @ block.T for block in blocks]).reshape(
            len(blocks), len(vectors_VL), len(vectors_VL)
        )
        square = np.sum(products[:, scaled_by, scaled_by], axis=1) if blocks else np.zeros(0)
        self.scale_P: Floats = np.where(square > 0, np.diff(starts) / np.where(square > 0, square, 1), 0)
        """What the squares of each parameter's numbers are multiplied by."""
        self.by_parameter = products * self.scale_P[:, None, None]
        self.live: Mask = square > 0

    def solve(self, regressors: Sequence[int], target: int, parameters: Mask) -> Solution:
        """Least squares of one vector on others, over the chosen parameters."""
        chosen = self.by_parameter[parameters & self.live].sum(axis=0)
        count = len(regressors)
        gram = chosen[np.ix_(regressors, regressors)]
        norms = np.sqrt(np.diag(gram)) if count else np.zeros(0)
        known = norms > 0
        coefficients, errors = np.zeros(count), np.full(count, np.inf)
        size = math.sqrt(max(chosen[target, target], 0.0))
        if not known.any():
            return Solution(coefficients, errors, 1.0 if size > 0 else 0.0, math.inf)
        unit = gram[np.ix_(known, known)] / np.outer(norms[known], norms[known])
        values, directions = np.linalg.eigh(unit)
        kept = values > values[-1] * _RANK_CUT**2
        inverse = (directions[:, kept] / values[kept]) @ directions[:, kept].T
        coefficients[known] = inverse @ (chosen[regressors, target][known] / norms[known]) / norms[known]
        residual = self._residual(chosen, regressors, target, coefficients)
        condition = math.sqrt(values[-1] / max(values[0], 1e-300))
        if kept.all():
            errors[known] = np.sqrt(np.diag(inverse)) / norms[known]
            largest = max(size, float(np.max(np.abs(coefficients[known]) * norms[known])))
            errors[known] *= self._noise(residual, largest, parameters, int(kept.sum()), condition)
        return Solution(coefficients, errors, residual / size if size > 0 else 0.0, condition)

    def _noise(self, residual: float, largest: float, parameters: Mask, kept: int, condition: float) -> float:
        """Standard deviation of one number's noise; never below what the type's rounding makes likely."""
        chosen = parameters & self.live
        rows = int(self.row_counts[chosen].sum())
        rounding = max((epsilon(self.dtypes[p]) for p in np.flatnonzero(chosen)), default=6e-8)
        if rows <= kept:
            return math.inf
        noise = max(residual / math.sqrt(rows - kept), rounding * largest / math.sqrt(rows))
        relative = residual / largest if largest > 0 else 0.0
        if 1e-5 < relative < 0.05:
            noise *= math.sqrt(max(1.0, rows / _INDEPENDENT_ROWS))
            if condition > _CONDITION_LIMIT:
                return math.inf
        return noise

    @staticmethod
    def _residual(products: Floats, regressors: Sequence[int], target: int, coefficients: Floats) -> float:
        gram = products[np.ix_(regressors, regressors)]
        cross = products[regressors, target]
        square = products[target, target] - 2 * coefficients @ cross + coefficients @ gram @ coefficients
        return math.sqrt(max(float(square), 0.0))

    def misfit(self, regressors: Sequence[int], target: int, coefficients: Floats) -> Floats:
        """|update - sum c_k g_k| for each parameter, relative to the larger of the update and its terms."""
        index = np.asarray(regressors, dtype=np.int64)
        gram_PKK = self.by_parameter[:, index[:, None], index[None, :]]
        cross_PK = self.by_parameter[:, index, target]
        own_P = self.by_parameter[:, target, target]
        square_P = own_P - 2 * cross_PK @ coefficients + np.einsum("k,pkl,l->p", coefficients, gram_PKK, coefficients)
        terms_P = np.einsum("k,pkk->p", coefficients**2, gram_PKK) if len(index) else np.zeros_like(own_P)
        size_P = np.sqrt(np.maximum(np.maximum(own_P, terms_P), 0))
        return np.where(size_P > 0, np.sqrt(np.maximum(square_P, 0)) / np.where(size_P > 0, size_P, 1), 0.0)


@dataclass(frozen=True)
class Cluster:
    """Parameters whose update one vector of coefficients explains."""

    parameters: Mask
    solution: Solution


@dataclass(frozen=True)
class Fit:
    """One rank's update, explained as far as it goes: the clusters, largest first, and what is left."""

    clusters: list[Cluster]
    unexplained: Mask
    rounding: float


def fit(products: Products, regressors: Sequence[int], target: int, parameters: Mask, *, may_round: bool = True) -> Fit:
    """Explains one update: one rule for all parameters if that does, else one for each group of parameters.

    A rule is taken only from parameters that hold at least 2 K + 2 independent numbers; what is too small for a rule of
    its own and follows none of the others is left unexplained. `may_round`: a residual that is small and spread evenly
    over the tensors counts as rounding in a smaller type on the way.
    """
    limits = np.array([tolerance(dtype, len(regressors)) for dtype in products.dtypes])
    pooled = products.solve(regressors, target, parameters)
    rounding = _evenly_rounded(products, regressors, target, parameters, pooled) if may_round else 0.0
    limits = np.maximum(limits, rounding)
    todo = parameters & products.live
    clusters: list[Cluster] = []
    while todo.any() and len(clusters) < 6:
        good, solution = largest_group(products, regressors, target, todo, limits)
        if int(products.row_counts[good].sum()) < 2 * len(regressors) + 2:
            break
        clusters.append(Cluster(good, solution))
        todo = todo & ~good
    clusters.sort(key=lambda cluster: -int(cluster.parameters.sum()))
    return Fit(clusters, todo, rounding)


def explained(
    products: Products, regressors: Sequence[int], target: int, coefficients: Floats, limits: Floats, among: Mask
) -> Mask:
    """The parameters among these whose update the coefficients explain, up to rounding."""
    return (products.misfit(regressors, target, coefficients) <= limits) & among


def largest_group(
    products: Products, regressors: Sequence[int], target: int, todo: Mask, limits: Floats
) -> tuple[Mask, Solution]:
    """The parameters that one rule explains: from a fit of all, of all without the worst, or of one parameter alone."""
    solution = products.solve(regressors, target, todo)
    best = explained(products, regressors, target, solution.coefficients, limits, todo)
    if (best == todo).all():
        return best, solution
    for start in (*_trimmed(products, regressors, target, todo, limits), *_alone(products, regressors, todo)):
        candidate = products.solve(regressors, target, start)
        good = explained(products, regressors, target, candidate.coefficients, limits, todo)
        if good.sum() > best.sum():
            best, solution = good, candidate
    if not best.any():
        return best, solution
    refit = products.solve(regressors, target, best)
    again = explained(products, regressors, target, refit.coefficients, limits, todo)
    return (again, refit) if again.sum() >= best.sum() else (best, solution)


def _trimmed(products: Products, regressors: Sequence[int], target: int, todo: Mask, limits: Floats) -> list[Mask]:
    """Ever smaller sets without the parameters that fit worst: one bad tensor spoils the pooled fit."""
    sets, kept = [], todo
    for _ in range(8):
        coefficients = products.solve(regressors, target, kept).coefficients
        misfit = np.where(kept, products.misfit(regressors, target, coefficients) / limits, np.inf)
        size = int(kept.sum() * 0.75)
        if size < 1:
            break
        kept = np.zeros_like(todo)
        kept[np.argsort(misfit, kind="stable")[:size]] = True
        sets.append(kept & todo)
    return sets


def _alone(products: Products, regressors: Sequence[int], todo: Mask) -> list[Mask]:
    """Each parameter that is large enough to have a rule of its own; the eight with the most numbers."""
    large = [p for p in np.flatnonzero(todo) if products.row_counts[p] >= 2 * len(regressors) + 2]
    large.sort(key=lambda p: -int(products.row_counts[p]))
    return [np.arange(len(todo)) == p for p in large[:8]]


def _evenly_rounded(
    products: Products, regressors: Sequence[int], target: int, parameters: Mask, pooled: Solution
) -> float:
    """The residual that arithmetic in a smaller type on the way (a compressing hook) explains; 0 if that is not it.

    Such rounding is spread evenly over the tensors, and no tensor has a rule of its own that fits much better.
    """
    if not 2e-6 < pooled.residual < 6e-3:
        return 0.0
    misfit = products.misfit(regressors, target, pooled.coefficients)
    large = [
        p for p in np.flatnonzero(parameters & products.live) if products.row_counts[p] > max(16, 4 * len(regressors))
    ]
    if not large:
        return 0.0
    own = [products.solve(regressors, target, np.arange(len(parameters)) == p) for p in large]
    own_misfit = [
        products.misfit(regressors, target, solution.coefficients)[p] for p, solution in zip(large, own, strict=True)
    ]
    better = [mine / max(misfit[p], 1e-300) for p, mine in zip(large, own_misfit, strict=True)]
    worst, middle = float(misfit[large].max()), float(np.median(misfit[large]))
    if np.median(better) < 0.5 or worst > 2e-2 or worst > 12 * middle:
        return 0.0
    return 2.5 * worst
