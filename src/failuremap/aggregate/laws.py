"""The laws of aggregation, each as a list of small cases: what `check_backend` holds a backend to.

Legend: K contributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from failuremap.aggregate.exact_terms import Array


@dataclass(frozen=True)
class Call:
    """Contributions, counts and rule, as a backend gets them.

    Attributes:
        vectors: The numbers of each contribution.
        counts: One each for `weighted_mean`, else None.
        rule: `weighted_mean`, `sum` or `mean`.
        shape: Of each contribution.
    """

    vectors: tuple[tuple[float, ...], ...]
    counts: tuple[int, ...] | None
    rule: str
    shape: tuple[int, ...] = (1,)

    def arrays(self, dtype: str) -> list[Array]:
        """Makes the contributions; numbers that the dtype can't hold are rounded to it."""
        return [np.array(vector, dtype).reshape(self.shape) for vector in self.vectors]

    def __str__(self) -> str:
        vectors = [array.tolist() for array in self.arrays("float64")]
        counts = "" if self.counts is None else f"counts={list(self.counts)}, "
        return f"combine({vectors}, {counts}rule={self.rule!r})"


@dataclass(frozen=True)
class Case:
    """A call, and what it is compared with: the exact result, or `factor` times what the backend gives for another."""

    call: Call
    like: Call | None = None
    factor: int = 1


@dataclass(frozen=True)
class Law:
    """What holds of every right backend.

    Attributes:
        name: A word or two.
        statement: The law, in a sentence.
        cases: Rule and K -> cases, the smallest first; none where the law says nothing.
    """

    name: str
    statement: str
    cases: Callable[[str, int], Iterator[Case]]


def _values(K: int) -> Iterator[tuple[float, ...]]:
    """Yields one number for each contribution: each alone, then some together, some that cancel, some not dyadic."""
    for k in range(K):
        yield tuple(float(j == k) for j in range(K))
    yield tuple(float(k + 2) for k in range(K))
    yield tuple((-1.0) ** k * (k + 1) for k in range(K))
    yield tuple(1 / (3 + k) for k in range(K))


def _calls(rule: str, counts: tuple[int, ...]) -> Iterator[Call]:
    for values in _values(len(counts)):
        yield Call(tuple((value,) for value in values), counts if rule == "weighted_mean" else None, rule)


def _definition(rule: str, K: int) -> Iterator[Case]:
    for count in (1, 3) if rule == "weighted_mean" else (1,):
        yield from (Case(call) for call in _calls(rule, (count,) * K) if K)


def _unequal_counts(rule: str, K: int) -> Iterator[Case]:
    if rule == "weighted_mean" and K > 1:
        for counts in (range(1, K + 1), range(K, 0, -1), [1000, *[1] * (K - 1)]):
            yield from map(Case, _calls(rule, tuple(counts)))


def _one_contribution(rule: str, K: int) -> Iterator[Case]:
    if K == 1:
        for count in (1, 2, 7):
            yield Case(Call(((1.0, -2.0, 0.1),), (count,) if rule == "weighted_mean" else None, rule, (3,)))


def _order(rule: str, K: int) -> Iterator[Case]:
    for call in _calls(rule, tuple(range(1, K + 1))) if K > 1 else ():
        for turn in range(1, K):
            vectors = call.vectors[turn:] + call.vectors[:turn]
            counts = call.counts and call.counts[turn:] + call.counts[:turn]
            yield Case(replace(call, vectors=vectors, counts=counts), call)


def _split(rule: str, K: int) -> Iterator[Case]:
    """Makes K contributions of fewer: the last one in two parts or, for a mean, all of them twice."""
    if rule == "mean":
        for call in _calls(rule, (1,) * (K // 2)) if K and K % 2 == 0 else ():
            yield Case(replace(call, vectors=call.vectors * 2), call)
        return
    for call in _calls(rule, (*range(1, K - 1), 5)) if K > 1 else ():
        last = call.vectors[-1]
        counts = call.counts and (*call.counts[:-1], 2, 3)
        parts = (last, last) if counts else ((2.0 * last[0],), (-last[0],))
        yield Case(Call((*call.vectors[:-1], *parts), counts, rule), call)


def _scale(rule: str, K: int) -> Iterator[Case]:
    for call in _calls(rule, tuple(range(1, K + 1))) if K else ():
        doubled = tuple(tuple(2 * number for number in vector) for vector in call.vectors)
        yield Case(replace(call, vectors=doubled), call, 2)
        if call.counts:
            yield Case(replace(call, counts=tuple(3 * count for count in call.counts)), call)


def _zero_count(rule: str, K: int) -> Iterator[Case]:
    if rule == "weighted_mean" and K > 1:
        for idle in (0.0, 1.0, math.nan, math.inf):
            for k in range(K):
                vectors = tuple((idle if j == k else float(j + 1),) for j in range(K))
                yield Case(Call(vectors, tuple(0 if j == k else j + 1 for j in range(K)), rule))


def _nothing_counted(rule: str, K: int) -> Iterator[Case]:
    if K == 0:
        yield Case(Call((), () if rule == "weighted_mean" else None, rule))
    elif rule == "weighted_mean":
        for value in (1.0, math.nan):
            yield Case(Call(((value,),) * K, (0,) * K, rule))


def _shape(rule: str, K: int) -> Iterator[Case]:
    for shape in ((0,), (2, 3)) if K else ():
        size = math.prod(shape)
        vectors = tuple(tuple(float(k + index) for index in range(size)) for k in range(K))
        yield Case(Call(vectors, tuple(range(1, K + 1)) if rule == "weighted_mean" else None, rule, shape))


def _precision(rule: str, K: int) -> Iterator[Case]:
    """Yields what float16 can't hold on the way, and what bfloat16 or float16 lose one by one."""
    if K > 2:
        counts: Any = (1000,) * K if rule == "weighted_mean" else None
        if rule != "sum":
            yield Case(Call(((40000.0,),) * K, counts, rule))
        for large in (256.0, 2048.0):
            yield Case(Call(((large,), *[(1.0,)] * (K - 1)), counts, rule))


LAWS = (
    Law("definition", "the result is the exact sum or mean", _definition),
    Law("unequal counts", "each contribution weighs as much as its count", _unequal_counts),
    Law("one contribution", "alone, a contribution is the result", _one_contribution),
    Law("order", "the order of the contributions changes nothing", _order),
    Law("split", "a contribution in two parts is the same as in one; all of them twice have the same mean", _split),
    Law("scale", "twice the gradients give twice the result; three times the counts, the same", _scale),
    Law("zero count", "a contribution with count 0 changes nothing, whatever it holds", _zero_count),
    Law("nothing counted", "where no unit is left there is no update: None, or no element", _nothing_counted),
    Law("shape", "each element is combined by itself, and the result has the contributions' shape", _shape),
    Law("precision", "sums of half-precision numbers are held in more than half precision", _precision),
)
