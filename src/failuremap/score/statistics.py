"""Estimates over families that come in groups: pass@k without bias, errors clustered by evaluation group, differences.

n samples of which c are right:     pass@k = 1 - C(n-c, k) / C(n, k)
G clusters g of items i, n items:   SE^2 = G/(G-1) * sum over g of (sum over i in g of (y_i - mean))^2 / n^2
interval:                           mean +- t(G-1 degrees of freedom) * SE

Mechanisms of one group stand or fall together, so that an error which takes them as independent is too small. With few
clusters of unequal size, as here, the interval still covers somewhat less than it says.

Sources: pass@k, Chen et al. 2021, "Evaluating Large Language Models Trained on Code", section 2.1. Clustered errors of
an evaluation, Miller 2024, "Adding Error Bars to Evals", section 2.2; paired differences, section 4.2. The factor
G/(G-1) and t with G-1 degrees of freedom, Cameron & Miller 2015, "A Practitioner's Guide to Cluster-Robust Inference",
sections II.B and VI.D. Limits where nothing varies, Clopper & Pearson 1934.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from failuremap.errors import InvalidArgument

CONFIDENCE = 0.95
_BISECTIONS = 200


def pass_at_k(sample_count: int, solved_count: int, k: int) -> Fraction:
    """Returns the unbiased estimate of the chance that one of k samples solves the family.

    Raises:
        InvalidArgument: The counts contradict each other, or there are fewer than k samples.

    Example:
        >>> pass_at_k(5, 2, 1), pass_at_k(5, 2, 3), pass_at_k(5, 2, 4)
        (Fraction(2, 5), Fraction(9, 10), Fraction(1, 1))
    """
    if not 0 <= solved_count <= sample_count:
        raise InvalidArgument(
            f"solved_count={solved_count} of sample_count={sample_count}; expected a number from 0 to {sample_count}."
        )
    if not 1 <= k <= sample_count:
        raise InvalidArgument(f"k={k} with sample_count={sample_count}; pass@k needs k samples or more, and k >= 1.")
    return 1 - Fraction(math.comb(sample_count - solved_count, k), math.comb(sample_count, k))


@dataclass(frozen=True)
class Estimate:
    """A mean over items in clusters.

    Attributes:
        value: The mean.
        standard_error: Clustered; None where there are fewer than two clusters.
        low: Lower end of the 95 % interval; None where none can be told.
        high: Its upper end.
        item_count: How many items.
        cluster_count: In how many clusters.
    """

    value: float
    standard_error: float | None
    low: float | None
    high: float | None
    item_count: int
    cluster_count: int


def proportion(values: Sequence[float | Fraction], clusters: Sequence[str]) -> Estimate:
    """Returns the mean of values from 0 to 1, with its clustered error and an interval that ends at 0 and 1.

    Where all are 0, or all are 1, no error can be estimated from them: the interval is then Clopper and Pearson's of
    as many trials as there are clusters.

    Raises:
        InvalidArgument: There is no value, or not one cluster for each.

    Example:
        >>> found = proportion([1, 1, 0, 0, 1, 1], ["a", "a", "b", "b", "c", "c"])
        >>> round(found.value, 4), round(found.standard_error, 4), found.high
        (0.6667, 0.3333, 1.0)
        >>> none_solved = proportion([0, 0, 0], ["a", "b", "c"])
        >>> none_solved.low, round(none_solved.high, 3)
        (0.0, 0.708)
    """
    value, error = _mean_and_error(values, clusters)
    cluster_count = len(set(clusters))
    if value in (0, 1):
        reach = 1 - ((1 - CONFIDENCE) / 2) ** (1 / cluster_count)
        interval: tuple[float | None, float | None] = (0.0, reach) if value == 0 else (1 - reach, 1.0)
    else:
        interval = _interval(value, error, cluster_count, 0.0)
    return Estimate(float(value), error, *interval, len(values), cluster_count)


def difference(
    ours: Sequence[float | Fraction], theirs: Sequence[float | Fraction], clusters: Sequence[str]
) -> Estimate:
    """Returns the mean of paired differences, ours less theirs, with its clustered error.

    What is hard for both cancels, so this error is smaller than that of two separate means.

    Raises:
        InvalidArgument: The sequences differ in length, or are empty.

    Example:
        >>> found = difference([1, 1, 0, 1], [1, 0, 0, 0], ["a", "a", "b", "c"])
        >>> found.value, round(found.standard_error, 4)
        (0.5, 0.2165)
    """
    if len(ours) != len(theirs):
        raise InvalidArgument(f"{len(ours)} values of ours and {len(theirs)} of theirs; a pair needs both.")
    pairs = [Fraction(one) - Fraction(other) for one, other in zip(ours, theirs, strict=True)]
    value, error = _mean_and_error(pairs, clusters)
    cluster_count = len(set(clusters))
    # with pairs that are all alike no error was seen, which is not the same as none
    interval = _interval(value, error, cluster_count, -1.0) if len(set(pairs)) > 1 else (None, None)
    return Estimate(float(value), error, *interval, len(pairs), cluster_count)


def t_quantile(probability: float, degrees_of_freedom: int) -> float:
    """Returns the quantile of Student's t distribution, for a probability of 1/2 or more.

    Source: the distribution for whole degrees of freedom, Abramowitz & Stegun 26.7.3 and 26.7.4; inverted by bisection.

    Example:
        >>> round(t_quantile(0.975, 8), 4), round(t_quantile(0.975, 1), 4)
        (2.306, 12.7062)
    """
    # of the angle atan(t / sqrt(df)), so that a search over a bounded range finds any t
    low, high = 0.0, math.pi / 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if (1 + _two_sided(middle, degrees_of_freedom)) / 2 < probability:
            low = middle
        else:
            high = middle
    return math.tan(low) * math.sqrt(degrees_of_freedom)


def _two_sided(angle: float, degrees_of_freedom: int) -> float:
    """Returns the probability that |t| is below sqrt(df) tan(angle)."""
    cosine, odd = math.cos(angle), degrees_of_freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for power in range(odd, degrees_of_freedom - 1, 2):
        term *= cosine**2 * (power - 1) / power if power > 1 else 1.0
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def _mean_and_error(values: Sequence[float | Fraction], clusters: Sequence[str]) -> tuple[Fraction, float | None]:
    if not values or len(values) != len(clusters):
        raise InvalidArgument(
            f"{len(values)} values in {len(clusters)} clusters; expected one value or more, and a cluster for each."
        )
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    sums: defaultdict[str, Fraction] = defaultdict(Fraction)
    for value, cluster in zip(exact, clusters, strict=True):
        sums[cluster] += value - mean
    count = len(sums)
    if count < 2:
        return mean, None
    variance = Fraction(count, count - 1) * sum(total**2 for total in sums.values()) / len(exact) ** 2
    return mean, math.sqrt(variance)


def _interval(
    value: Fraction, error: float | None, cluster_count: int, least: float
) -> tuple[float | None, float | None]:
    if error is None:
        return None, None
    reach = t_quantile((1 + CONFIDENCE) / 2, cluster_count - 1) * error
    return max(float(value) - reach, least), min(float(value) + reach, 1.0)
