"""Windows of micro-batches whose gradients are known as fractions: what the ranks train, and what they should step on.

The loss of a unit is linear in the weights, so its gradient is the unit's own features, whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

FEATURES = 7
ROWS = 5  # of the embedding
WRAPPERS = ("ddp", "fsdp", "hsdp")

_UNEQUAL = ((3, 1, 4, 2),)
_WINDOW = ((3, 1, 4, 2), (2, 5, 1, 6), (1, 7, 2, 3))


@dataclass(frozen=True)
class Scenario:
    """One window.

    Attributes:
        counts: For each micro-batch the units on each rank; there are at most four.
        sync: Which micro-batches are reduced: `last` or `every`.
        unused: For each micro-batch whether the second layer is left out.
    """

    name: str
    wrapper: str
    counts: tuple[tuple[int, ...], ...] = _UNEQUAL
    rule: str = "weighted_mean"
    loss: str | None = "mean"
    dtype: str = "float32"
    sync: str = "last"
    nan: bool = False
    unused: tuple[bool, ...] = ()
    sparse: bool = False
    exact: bool = False
    nonfinite: str = "propagate"
    options: tuple[str, ...] = ()

    def leaves_out(self, micro_batch: int) -> bool:
        """Whether this micro-batch does without the second layer."""
        return bool(self.unused) and self.unused[micro_batch]


def unit(rank: int, micro_batch: int, index: int) -> list[int]:
    """Return the features of one unit."""
    start = 31 * rank + 17 * micro_batch + 7 * index
    return [(start + 5 * column * (column + rank + 1)) % 17 - 8 for column in range(FEATURES)]


def row_of(rank: int, micro_batch: int, index: int) -> int:
    """Return the embedding's row that a unit looks up."""
    return (2 * rank + micro_batch + index) % (ROWS - 1)  # the last row is never looked up


def expected(scenario: Scenario, ranks: int) -> dict[str, list[Fraction] | None]:
    """Return what every rank should step on, by layer; None where there is no update."""
    names = ["first", "second", *(["table"] if scenario.sparse else [])]
    found = {name: _sum(scenario, name, ranks) for name in names}
    if all(scenario.leaves_out(micro_batch) for micro_batch in range(len(scenario.counts))):
        found["second"] = None
    return found


def magnitudes(scenario: Scenario, ranks: int) -> dict[str, list[Fraction]]:
    """Return the same sums of the numbers' sizes: what rounding errors are relative to."""
    return {name: _sum(scenario, name, ranks, of_sizes=True) or [] for name in ("first", "second", "table")}


def _sum(scenario: Scenario, name: str, ranks: int, *, of_sizes: bool = False) -> list[Fraction] | None:
    parts = [
        (rank, micro_batch, counts[rank])
        for micro_batch, counts in enumerate(scenario.counts)
        for rank in range(ranks)
        if counts[rank]
    ]
    weights = _weights(scenario, [count for _, _, count in parts])
    gradients = [_gradient(scenario, name, *part, of_sizes=of_sizes) for part in parts]
    columns = zip(*gradients, strict=True)
    return [sum((w * g for w, g in zip(weights, column, strict=True)), Fraction(0)) for column in columns] or None


def _weights(scenario: Scenario, counts: list[int]) -> list[Fraction]:
    """Return the weight of each contribution's sum over its units."""
    if scenario.rule == "weighted_mean":
        return [Fraction(1, sum(counts)) for _ in counts]
    divisor = len(counts) if scenario.rule == "mean" else 1
    return [Fraction(1, count * divisor) for count in counts]


def _gradient(
    scenario: Scenario, name: str, rank: int, micro_batch: int, count: int, *, of_sizes: bool
) -> list[Fraction]:
    """Return the sum of the units' gradients of one micro-batch, or of their sizes."""
    units = [unit(rank, micro_batch, index) for index in range(count)]
    sums = [Fraction(sum(map(abs, column) if of_sizes else column)) for column in zip(*units, strict=True)]
    if name == "table":
        looked_up = [row_of(rank, micro_batch, index) for index in range(count)]
        return [Fraction(looked_up.count(row)) for row in range(ROWS) for _ in range(2)]
    if name == "first":
        return sums[:3] * 2
    return [Fraction(0)] * 5 if scenario.leaves_out(micro_batch) else [*sums[3:], Fraction(count)]


def _window_scenarios(wrapper: str) -> list[Scenario]:
    base = Scenario("", wrapper)
    kinds = {
        "unequal": base,
        "unequal, sums": replace(base, loss="sum"),
        "zero on one rank, NaN there": replace(base, counts=((2, 0, 5, 1),), nan=True),
        "zero on the first rank, NaN there": replace(base, counts=((0, 3, 5, 1),), nan=True),
        "all zero": replace(base, counts=((0, 0, 0, 0),), nan=True),
        "one rank alone": replace(base, counts=((5, 0, 0, 0),)),
        "mean": replace(base, rule="mean", loss=None),
        "sum": replace(base, rule="sum", loss=None),
        "window": replace(base, counts=_WINDOW),
        "window, sums": replace(base, counts=_WINDOW, loss="sum"),
        "window, mean": replace(base, counts=_WINDOW, rule="mean", loss=None),
        "window, sum": replace(base, counts=_WINDOW, rule="sum", loss=None),
        "window, each reduced": replace(base, counts=_WINDOW, sync="every"),
        "window, each reduced, mean": replace(base, counts=_WINDOW, rule="mean", loss=None, sync="every"),
        "window, each reduced, sum": replace(base, counts=_WINDOW, rule="sum", loss=None, sync="every"),
        "window, a NaN of count zero first": replace(base, counts=((0, 0, 0, 0), *_WINDOW[1:]), nan=True),
        "window, a NaN of count zero last": replace(base, counts=(*_WINDOW[:2], (0, 4, 0, 1)), nan=True),
        "window, each reduced, first empty": replace(base, counts=((0, 0, 0, 0), *_WINDOW), sync="every", nan=True),
        "exact": replace(base, exact=True),
        "exact, sums": replace(base, exact=True, loss="sum"),
        "exact window, each reduced, sums": replace(base, counts=_WINDOW, exact=True, sync="every", loss="sum"),
        "exact window, each reduced": replace(base, counts=_WINDOW, exact=True, sync="every"),
        **{
            f"{dtype}{', window' if len(counts) > 1 else ''}": replace(base, dtype=dtype, counts=counts)
            for dtype in ("bfloat16", "float16", "float64")
            for counts in (_UNEQUAL, _WINDOW)
        },
        "float16 of large counts": replace(base, dtype="float16", counts=((3000, 0, 2900, 3100),)),
    }
    return [replace(scenario, name=f"{wrapper}: {kind}") for kind, scenario in kinds.items()]


def _ddp_scenarios() -> list[Scenario]:
    base = Scenario("", "ddp")
    find = ("find_unused_parameters",)
    kinds = {
        "bucket views": replace(base, counts=_WINDOW, options=("gradient_as_bucket_view",)),
        "bucket views, each reduced": replace(base, counts=_WINDOW, sync="every", options=("gradient_as_bucket_view",)),
        "static graph": replace(base, options=("static_graph",)),
        "static graph, each reduced": replace(base, counts=_WINDOW, sync="every", options=("static_graph",)),
        "several buckets": replace(base, counts=_WINDOW, options=("small_buckets",)),
        "several buckets, each reduced": replace(base, counts=_WINDOW, sync="every", options=("small_buckets",)),
        "unused": replace(base, unused=(True,), options=find),
        "unused in the last": replace(base, counts=_WINDOW, unused=(False, False, True), options=find),
        "unused in the last, each reduced": replace(
            base, counts=_WINDOW, unused=(False, True, True), sync="every", options=find
        ),
        "sparse": replace(base, sparse=True),
        "sparse window": replace(base, counts=_WINDOW, sparse=True),
        "sparse window, each reduced": replace(base, counts=_WINDOW, sparse=True, sync="every"),
        "sparse, NaN of count zero": replace(base, counts=((2, 0, 5, 1),), nan=True, sparse=True),
        "exact window": replace(base, counts=_WINDOW, exact=True),
        "exact window, sums": replace(base, counts=_WINDOW, exact=True, loss="sum"),
        "exact window, several buckets": replace(base, counts=_WINDOW, exact=True, options=("small_buckets",)),
        "exact window, bfloat16": replace(base, counts=_WINDOW, exact=True, dtype="bfloat16"),
        "exact, unused in the last, each reduced": replace(
            base, counts=_WINDOW, exact=True, unused=(False, True, True), sync="every", options=find
        ),
        "held back": replace(base, counts=_WINDOW, nonfinite="raise"),
        "held back, several buckets": replace(base, nonfinite="exclude", options=("small_buckets",)),
    }
    return [replace(scenario, name=f"ddp: {kind}") for kind, scenario in kinds.items()]


def _sharded_scenarios(wrapper: str) -> list[Scenario]:
    base = Scenario("", wrapper)
    kinds = {
        "root alone": replace(base, counts=_WINDOW, options=("root_alone",)),
        "mixed precision": replace(base, counts=_WINDOW, options=("mixed_precision",)),
        "mixed precision, reduced in bfloat16": replace(base, options=("mixed_precision", "low_reduce")),
        "kept gathered": replace(base, counts=_WINDOW, options=("kept_gathered",)),
        "unused": replace(base, unused=(True,)),
    }
    if wrapper == "hsdp":
        kinds["replicas alone"] = replace(base, counts=_WINDOW, options=("replicas_alone",))
        kinds["shards reduced, replicas last"] = replace(base, counts=_WINDOW, sync="replicas_last")
        kinds["bfloat16, replicas last"] = replace(base, counts=_WINDOW, sync="replicas_last", dtype="bfloat16")
    return [replace(scenario, name=f"{wrapper}: {kind}") for kind, scenario in kinds.items()]


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        *(scenario for wrapper in WRAPPERS for scenario in _window_scenarios(wrapper)),
        *_ddp_scenarios(),
        *_sharded_scenarios("fsdp"),
        *_sharded_scenarios("hsdp"),
    )
}
