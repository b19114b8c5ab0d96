"""A step of more contributions than can be solved for: combinations that have a name are tried, and then corrected.

One thousand ranks of eight micro-batches would need the eigenvectors of a matrix of 8,192 rows. So the update is held
against one combination of all contributions after the other: all alike, by their counts, by the counts of their rank
or micro-batch, one coefficient for each micro-batch, the rank's own alone. Where none explains it, `pursuit` corrects
the best of them.

Legend: K contributions, D directions, R ranks, L numbers of all parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.fitting.fit import EPSILON, Cluster, Fit, Products, Solution, explained, largest_group, tolerance
from failuremap.audit.fitting.pursuit import pursued
from failuremap.audit.steps.windows import Step
from failuremap.audit.weighing.weigh import read_losses

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_SOLVED = 512
"""Contributions up to which every coefficient is solved for by itself."""
# a residual above this would hide what a report must see, whatever the type rounds to
_LOOSEST = 0.02
_CLUSTERS = 6
_WINDOW = 32


def limit(dtype: str, contribution_count: int) -> float:
    """The relative residual up to which rounding explains a tensor; never so much that it hides a wrong rule."""
    return min(tolerance(dtype, contribution_count), _LOOSEST)


@dataclass(frozen=True)
class Directions:
    """Combinations of contributions, and the sets of them that one hypothesis puts together."""

    weights_DK: Floats
    sets: list[list[int]]


def directions(step: Step) -> Directions:
    """Lists the combinations that an update may be, the simplest first."""
    rank_K = np.array([rank for rank, _ in step.keys], dtype=np.int64)
    batch_K = np.array([batch for _, batch in step.keys], dtype=np.int64)
    rows: list[Floats] = []
    for row in _shapes(step, rank_K, batch_K):
        known = bool(row.any()) and bool(np.isfinite(row).all())
        if known and not any(_parallel(row, other) for other in rows):
            rows.append(row)
    sets = [[index] for index in range(len(rows))]
    batches = np.unique(batch_K)
    if 1 < len(batches) <= _WINDOW:
        for row in tuple(rows):
            sets.append(list(range(len(rows), len(rows) + len(batches))))
            rows.extend(np.where(batch_K == batch, row, 0.0) for batch in batches)
    return Directions(np.array(rows), sets)


def _shapes(step: Step, rank_K: NDArray[np.int64], batch_K: NDArray[np.int64]) -> Iterator[Floats]:
    """All alike, and by the counts of each term of the loss; as they are, and per unit of what its losses weigh."""
    yield np.ones(len(step.keys))
    for term in (term for way in read_losses(step.backwards, None, step.used_KP).alternatives for term in way):
        counts = np.where(term.has_K, term.counts_K, 0.0)
        of_rank, of_batch = _totals(counts, rank_K), _totals(counts, batch_K)
        shapes = [counts, _over(counts, of_rank), _over(counts, of_batch), counts**2, counts * of_rank]
        yield from shapes
        yield from (_over(shape, term.totals_K) for shape in (np.ones(len(counts)), *shapes))


def _totals(counts_K: Floats, place_K: NDArray[np.int64]) -> Floats:
    _, index = np.unique(place_K, return_inverse=True)
    found: Floats = np.bincount(index, weights=counts_K).astype(np.float64)[index]
    return found


def _over(numerator_K: Floats, denominator_K: Floats) -> Floats:
    there = denominator_K != 0
    return np.where(there, numerator_K / np.where(there, denominator_K, 1.0), 0.0)


def _parallel(first: Floats, second: Floats) -> bool:
    sizes = float(first @ first) * float(second @ second)
    return float(first @ second) ** 2 >= sizes * (1 - 1e-12)


@dataclass(frozen=True)
class Regressors:
    """Combinations of contributions, with what they come to: one row each."""

    weights_DK: Floats
    vectors_DL: Floats


@dataclass(frozen=True)
class Explained:
    """One rank's update, as far as combinations explain it."""

    fit: Fit
    """Its clusters have one coefficient for each contribution."""
    products: Products
    """Of the combinations that were tried, then of the update."""
    set_size: int
    """Combinations in the largest hypothesis."""


class Explainer:
    """Explains the updates of one step, whose vectors are all finite."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.directions = directions(step)
        self.rank_K = np.array([rank for rank, _ in step.keys])
        self.regressors = self._regressors(self.directions.weights_DK)
        self.limits = np.array([limit(parameter.dtype, len(step.keys)) for parameter in step.parameters])
        self.squares_KP = np.add.reduceat(step.contributions_KL**2, step.starts[:-1], axis=1)

    def explain(self, row: int, parameters: Mask) -> Explained:
        """Explains one rank's update by combinations that have a name, else by the best of these with corrections.

        Args:
            row: Which of the step's updates.
            parameters: Those to explain.
        """
        regressors, sets = self._with_own(self.step.ranks[row])
        named = self._fitted(regressors, row, sets, parameters)
        if not named.fit.unexplained.any():
            return named
        weights = pursued(self.step, row, named.fit.unexplained, self.directions.weights_DK[self._simple])
        corrected = self._fitted(self._regressors(weights), row, [list(range(len(weights)))], parameters)
        return min(named, corrected, key=lambda found: int(found.fit.unexplained.sum()))

    def with_before(self, row: int, parameters: Mask, before_L: Floats) -> tuple[Mask, Solution, float] | None:
        """Explains an update by the one before it, with a combination that has a name or alone.

        Returns:
            What it explains, the coefficients of the contributions, and the factor of the update before; None where it
            explains no more than half of the parameters.
        """
        last = len(self.directions.weights_DK)
        weights = np.concatenate([self.directions.weights_DK, np.zeros((1, len(self.rank_K)))])
        regressors = Regressors(weights, np.concatenate([self.regressors.vectors_DL, before_L[None]]))
        products, target = self._products(regressors, row), last + 1
        for chosen in [[last], *([index, last] for index in self._simple)]:
            found = products.solve(chosen, target, parameters)
            good = explained(products, chosen, target, found.coefficients, self.limits, parameters)
            if 2 * good.sum() > parameters.sum():
                return (
                    good,
                    self._by_contribution(found, weights[chosen], products, good),
                    float(found.coefficients[-1]),
                )
        return None

    @property
    def _simple(self) -> list[int]:
        return [found[0] for found in self.directions.sets if len(found) == 1]

    def _with_own(self, rank: int) -> tuple[Regressors, list[list[int]]]:
        """The directions, and what one rank's own contributions alone come to along them."""
        own = self.directions.weights_DK[self._simple] * (self.rank_K == rank)
        count = len(self.directions.weights_DK)
        sets = [*self.directions.sets, *([count + index] for index in range(len(own)))]
        vectors = own[:, self.rank_K == rank] @ self.step.contributions_KL[self.rank_K == rank]
        joined = np.concatenate([self.regressors.vectors_DL, vectors])
        return Regressors(np.concatenate([self.directions.weights_DK, own]), joined), sets

    def _regressors(self, weights_DK: Floats) -> Regressors:
        return Regressors(weights_DK, weights_DK @ self.step.contributions_KL)

    def _products(self, regressors: Regressors, row: int) -> Products:
        vectors = np.concatenate([regressors.vectors_DL, self.step.updates_RL[row][None]])
        dtypes, sizes = [p.dtype for p in self.step.parameters], [p.size for p in self.step.parameters]
        return Products(vectors, self.step.starts, range(len(vectors)), dtypes, sizes)

    def _fitted(self, regressors: Regressors, row: int, sets: list[list[int]], parameters: Mask) -> Explained:
        products = self._products(regressors, row)
        todo = parameters & products.live
        clusters: list[Cluster] = []
        while todo.any() and len(clusters) < _CLUSTERS:
            chosen, good, solution = self._best(products, sets, todo)
            if int(products.row_counts[good].sum()) < 2 * len(chosen) + 2:
                break
            weights = regressors.weights_DK[chosen]
            clusters.append(Cluster(good, self._by_contribution(solution, weights, products, good)))
            todo = todo & ~good
        clusters.sort(key=lambda cluster: -int(cluster.parameters.sum()))
        return Explained(Fit(clusters, todo, 0.0), products, max(map(len, sets)))

    def _best(self, products: Products, sets: list[list[int]], todo: Mask) -> tuple[list[int], Mask, Solution]:
        """The first set that explains all, or the one that explains most."""
        target = len(products.by_parameter[0]) - 1
        for chosen in sets:
            solution = products.solve(chosen, target, todo)
            good = explained(products, chosen, target, solution.coefficients, self.limits, todo)
            if (good == todo).all():
                return chosen, good, solution
        found = [(chosen, *largest_group(products, chosen, target, todo, self.limits)) for chosen in sets]
        return max(found, key=lambda triple: int(triple[1].sum()))

    def _by_contribution(self, solution: Solution, weights_DK: Floats, products: Products, good: Mask) -> Solution:
        """One coefficient for each contribution, and how far those of all could be off behind the residual.

        Coefficients that are off by a part e of themselves, each on its own, leave a residual of
        e sqrt(sum c_k^2 |g_k|^2), for gradients that have nothing to do with one another.
        """
        coefficients = solution.coefficients @ weights_DK
        spread = float(np.sqrt((coefficients**2 @ self.squares_KP) @ np.where(good, products.scale_P, 0.0)))
        size = float(np.sqrt(products.by_parameter[good, -1, -1].sum()))
        rounding = max((EPSILON.get(products.dtypes[p], 6e-8) for p in np.flatnonzero(good)), default=0.0)
        noise = max(solution.residual, rounding) * size
        errors = np.abs(coefficients) * noise / spread if spread > 0 else np.full(len(coefficients), np.inf)
        return Solution(coefficients, errors, solution.residual, solution.condition)
