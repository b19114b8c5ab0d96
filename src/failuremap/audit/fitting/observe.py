"""One step, fitted: which rule each rank's update follows, on which parameters, and what no rule explains.

Legend: K contributions (classes of equal ones count once in a fit), R ranks, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.fitting.alike import alike, classes_of
from failuremap.audit.fitting.fit import Cluster, Fit, Products, fit, tolerance
from failuremap.audit.fitting.hypotheses import MOST_SOLVED, Explainer
from failuremap.audit.fitting.shard_fit import explained_by_shard
from failuremap.audit.steps.previous import laid_out_like
from failuremap.audit.steps.windows import Step

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# a relative difference that one number meets by chance less often than once in ten thousand times
_FINE = 1e-4


@dataclass(frozen=True)
class Carried:
    """Parameters whose update holds something of the step before."""

    parameters: Mask
    coefficients_K: Floats
    errors_K: Floats
    factor: float
    """Of the previous update; nan where the previous step's contributions are in the update one by one."""
    current: bool
    """Whether this step's contributions are in the update, too."""


@dataclass(frozen=True)
class Observation:
    """The update of some ranks, which step alike, explained as far as it goes."""

    ranks: list[int]
    clusters: list[Cluster]
    carried: Carried | None
    own: dict[str, float]
    """Parameters without a rule of their own that follow "own rank only", with the factor."""
    scaled: dict[str, float]
    """Parameters without a rule of their own that follow the main one times a factor."""
    partial: dict[str, float]
    """Parameters without a rule of their own of which each rank of a model steps on its part, with the factor."""
    unexplained: Mask
    untouched: Mask
    """Parameters with an update, and no contribution of any rank in this window."""
    rounding: float
    hooked: Mask
    """Parameters that follow the rule of most once the script's own hooks on them are allowed for."""


@dataclass(frozen=True)
class Fitted:
    """A step and its observations; equal contributions are listed as classes of indices into the step's keys."""

    step: Step
    observations: list[Observation]
    classes: list[list[int]]
    products: Products
    nonzero_K: Mask
    same: list[list[int]] = field(default_factory=list)
    regressor_count: int = 0
    """Coefficients that one fit has."""


def nonfinite(step: Step) -> tuple[list[int], list[int]]:
    """Contributions (as indices of keys) and ranks' updates that are not finite."""
    bad = [k for k, row in enumerate(step.contributions_KL) if not np.isfinite(row).all()]
    return bad, [rank for rank, row in zip(step.ranks, step.updates_RL, strict=True) if not np.isfinite(row).all()]


def observe(step: Step, previous: Step | None) -> Fitted:
    """Fits every distinct update of a step; all its vectors are finite."""
    classes = classes_of(step)
    contributions = step.contributions_KL[[members[0] for members in classes]]
    groups = alike(step)
    if len(classes) > MOST_SOLVED:
        return _observe_by_name(step, previous, classes, groups)
    extra = laid_out_like(step, previous)
    updates = step.updates_RL[[group[0] for group in groups]]
    vectors = np.concatenate([contributions, updates, *extra])
    products = _products(step, vectors, len(contributions) + len(updates))
    hooked = None
    if step.altered_KL is not None:
        hooked = _products(
            step, np.concatenate([step.altered_KL[[m[0] for m in classes]], updates]), len(contributions) + len(updates)
        )
    reader = _Reader(step, classes, products, len(updates), [len(rows) for rows in extra], hooked)
    observations = [reader.observation(index, group) for index, group in enumerate(groups)]
    nonzero = np.any(step.contributions_KL != 0, axis=1)
    same = [members for members in classes if len(members) > 1]
    return Fitted(step, observations, classes, products, nonzero, same, len(classes))


def _observe_by_name(step: Step, previous: Step | None, classes: list[list[int]], groups: list[list[int]]) -> Fitted:
    """Holds every distinct update of a step with very many contributions against combinations that have a name."""
    explainer = Explainer(step)
    before = laid_out_like(step, previous)
    touched = np.any(explainer.squares_KP > 0, axis=0)
    observations, found = [], None
    for group in groups:
        present = step.present_RP[group[0]]
        found = explainer.explain(group[0], present & touched)
        has_update = np.add.reduceat(step.updates_RL[group[0]] ** 2, step.starts[:-1]) > 0
        left = found.fit.unexplained | (present & has_update & ~touched)
        carried = None
        if left.any() and before:
            late = explainer.with_before(group[0], left, before[0][group[0]])
            if late is not None:
                good, solution, factor = late
                current = bool(solution.coefficients.any())
                carried = Carried(good, solution.coefficients, solution.errors, factor, current)
                left = left & ~good
        ranks = [step.ranks[row] for row in group]
        none = np.zeros(len(left), dtype=bool)
        observations.append(
            Observation(ranks, found.fit.clusters, carried, {}, {}, {}, left & touched, left & ~touched, 0.0, none)
        )
    assert found is not None
    nonzero = np.any(step.contributions_KL != 0, axis=1)
    same = [members for members in classes if len(members) > 1]
    return Fitted(step, observations, classes, found.products, nonzero, same, found.set_size)


def _products(step: Step, vectors: Floats, own: int) -> Products:
    dtypes, sizes = [p.dtype for p in step.parameters], [p.size for p in step.parameters]
    return Products(vectors, step.starts, list(range(own)), dtypes, sizes)


class _Reader:
    """Fits the updates of one step, given the inner products of all its vectors."""

    def __init__(
        self,
        step: Step,
        classes: list[list[int]],
        products: Products,
        update_count: int,
        extra: list[int],
        hooked: Products | None,
    ) -> None:
        self.step, self.classes, self.products, self.hooked = step, classes, products, hooked
        self.regressors = list(range(len(classes)))
        self.first_update = len(classes)
        start = self.first_update + update_count
        self.previous_updates = list(range(start, start + extra[0])) if extra else []
        start += extra[0] if extra else 0
        self.previous_contributions = list(range(start, start + extra[1])) if extra else []

    def observation(self, index: int, group: list[int]) -> Observation:
        target = self.first_update + index
        present = self.step.present_RP[group[0]]
        touched = self.products.by_parameter[:, self.regressors, self.regressors].sum(axis=1) > 0
        has_update = self.products.by_parameter[:, target, target] > 0
        whole = fit(self.products, self.regressors, target, present & touched)
        if whole.rounding and explained_by_shard(self.step, self.classes, present & touched):
            whole = fit(self.products, self.regressors, target, present & touched, may_round=False)
        whole, hooked = self._allow_for_hooks(whole, target, present & touched)
        left = whole.unexplained | (present & has_update & ~touched)
        own = self._times(self._own_rank(self.step.ranks[group[0]]), target, left)
        partial = {
            name: factor for name, factor in self._own_parts().items() if left[self._named({name: factor})].any()
        }
        left = left & ~self._named(own) & ~self._named(partial)
        scaled = self._times(whole.clusters[0].solution.coefficients, target, left) if whole.clusters else {}
        left = left & ~self._named(scaled)
        carried = self._carried(whole, target, left, group[0])
        if carried is not None:
            left = left & ~carried.parameters
        clusters = [self._spread(cluster) for cluster in whole.clusters]
        if carried is not None:
            clusters = [
                kept
                for kept in (_without(cluster, carried.parameters) for cluster in clusters)
                if kept.parameters.any()
            ]
        untouched = left & ~touched
        ranks = [self.step.ranks[row] for row in group]
        return Observation(
            ranks, clusters, carried, own, scaled, partial, left & touched, untouched, whole.rounding, hooked
        )

    def _allow_for_hooks(self, whole: Fit, target: int, parameters: Mask) -> tuple[Fit, Mask]:
        """Parameters with hooks of the script's own may follow the main rule behind these hooks."""
        none = np.zeros(len(parameters), dtype=bool)
        if self.hooked is None or not whole.clusters:
            return whole, none
        main = whole.clusters[0]
        limits = np.array(
            [max(tolerance(dtype, len(self.regressors)), whole.rounding) for dtype in self.products.dtypes]
        )
        fits = self.hooked.misfit(self.regressors, target, main.solution.coefficients) <= limits
        hooked = fits & parameters & ~main.parameters
        rest = [kept for kept in (_without(cluster, hooked) for cluster in whole.clusters[1:]) if kept.parameters.any()]
        return Fit(
            [Cluster(main.parameters | hooked, main.solution), *rest], whole.unexplained & ~hooked, whole.rounding
        ), hooked

    def _spread(self, cluster: Cluster) -> Cluster:
        """Gives each member of a class its part of the class's coefficient."""
        solution = cluster.solution
        coefficients, errors = self._by_key(solution.coefficients, solution.errors)
        return Cluster(cluster.parameters, type(solution)(coefficients, errors, solution.residual, solution.condition))

    def _by_key(self, coefficients: Floats, errors: Floats) -> tuple[Floats, Floats]:
        spread, noise = np.zeros(len(self.step.keys)), np.zeros(len(self.step.keys))
        for members, coefficient, error in zip(self.classes, coefficients, errors, strict=True):
            spread[members], noise[members] = coefficient / len(members), error / len(members)
        return spread, noise

    def _carried(self, whole: Fit, target: int, left: Mask, row: int) -> Carried | None:
        """Explains what is left by the step before: its update (not zeroed), or its contributions (applied late)."""
        if not left.any() or not self.previous_updates:
            return None
        limits = np.array([tolerance(dtype, len(self.regressors) + 1) for dtype in self.products.dtypes])
        for extra in ([self.previous_updates[row]], self.previous_contributions):
            regressors = [*self.regressors, *extra]
            if self.products.row_counts[left].sum() < 2 * len(regressors) + 2:  # so few numbers fit anything
                continue
            solution = self.products.solve(regressors, target, left)
            fits = left & (
                self.products.misfit(regressors, target, solution.coefficients) <= np.maximum(limits, whole.rounding)
            )
            now, before = solution.coefficients[: len(self.regressors)], solution.coefficients[len(self.regressors) :]
            sizes = np.sqrt(np.diagonal(self.products.by_parameter[left].sum(axis=0)))
            was = float(np.max(np.abs(before) * sizes[extra], initial=0.0))
            largest = max(was, float(np.max(np.abs(now) * sizes[self.regressors], initial=0.0)))
            if fits.sum() * 2 > left.sum() and was > 0.01 * largest:
                coefficients, errors = self._by_key(now, solution.errors[: len(self.regressors)])
                current = bool(np.max(np.abs(now) * sizes[self.regressors], initial=0.0) > 1e-3 * largest)
                return Carried(
                    fits,
                    coefficients,
                    errors,
                    float(before[0]) if len(extra) == 1 and extra[0] in self.previous_updates else float("nan"),
                    current,
                )
        return None

    def _own_rank(self, rank: int) -> Floats | None:
        """All contributions of one rank alike and none of another; None where that says nothing."""
        mine = np.array([float(any(self.step.keys[k][0] == rank for k in members)) for members in self.classes])
        return mine if mine.any() and not mine.all() else None

    def _own_parts(self) -> dict[str, float]:
        return {} if self.step.sharding is None else self.step.sharding.own_parts

    def _named(self, found: dict[str, float]) -> Mask:
        return np.array([parameter.name in found for parameter in self.step.parameters], dtype=bool)

    def _times(self, direction: Floats | None, target: int, left: Mask) -> dict[str, float]:
        """Parameters whose update is a factor times one given combination: three numbers are enough to see that.

        Of one number or two it can be seen where the factor is 1, and rounding is fine.
        """
        found: dict[str, float] = {}
        if direction is None:
            return found
        for p in np.flatnonzero(left):
            gram = self.products.by_parameter[p][np.ix_(self.regressors, self.regressors)]
            square = float(direction @ gram @ direction)
            limit = tolerance(self.products.dtypes[p], 1)
            few = self.products.row_counts[p] < 3
            if square <= 0 or (few and limit > _FINE):
                continue
            inner = float(direction @ self.products.by_parameter[p][self.regressors, target])
            factor = 1.0 if few else inner / square
            if self.products.misfit(self.regressors, target, factor * direction)[p] <= limit:
                found[self.step.parameters[p].name] = factor
        return found


def _without(cluster: Cluster, parameters: Mask) -> Cluster:
    return Cluster(cluster.parameters & ~parameters, cluster.solution)
