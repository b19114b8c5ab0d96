"""The divisor counts parts that contribute nothing: valid/(valid + idle) of the right weight."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=36,
    slug="divisor-counts-idle-parts",
    title="The divisor counts parts that contribute nothing",
    group="window-divisor",
    abstract="Padding, masked units or empty micro-batches shrink the update of those that count.",
    root_cause="The denominator is a size (of a tensor, of a window, of the world), not a count of what contributes.",
    failure="A row padded from 2 tokens to 4, with summed gradient 8, gives 2, where 8/2 = 4 is right.",
    failed_approach=(
        "A masked mean in each micro-batch, its denominator clamped to 1 against nan, takes the padding out, but "
        "divides by the number of micro-batches: an empty one is still counted there."
    ),
    relevance=(
        "The step shrinks with the share of padding, so it differs between data sets, collators and packing. Met "
        "where micro-batches can be masked out as a whole (NeMo-RL), where loss masks met a mean over all tokens "
        "(Fast-LLM), and where tokens of a skipped nan loss stayed in the count (prime-rl)."
    ),
    limitations="Valid units are given; a mask that marks the wrong ones is another fault.",
    contract=(
        "Given [gradient_sum, valid_count, size] rows, the size being the valid units and the idle ones together, "
        "return the sum of the gradients over the valid units alone; [] where none is valid."
    ),
    domain=(
        "rows: a list of (gradient, valid, size) triples; gradient a list of integers, all of one length, zeros where "
        "nothing is valid; 0 <= valid <= size, size 1 or more."
    ),
    clauses=(
        Clause(
            "padding-changes-nothing",
            "algebraic",
            "The size of a row has no part in the result.",
            ("half padding", "unequal padding", "much padding"),
        ),
        Clause("no-idle-part", "algebraic", "Without an idle unit it is the mean.", ("no padding",)),
        Clause(
            "idle-row",
            "boundary",
            "A row in which nothing is valid changes nothing.",
            ("idle micro-batch", "idle on most ranks"),
        ),
        Clause(
            "zero-total", "boundary", "Where nothing is valid there is no update: [].", ("nothing valid", "no rows")
        ),
    ),
    attempt_follows="mean",
    by_signs_alone=True,
    signs=signs({Sign.EMPTY_CONTRIBUTION}, {Sign.IDLE_UNITS_COUNTED}),
    never=frozenset({Sign.NONFINITE}),
    separated_by="a batch without padding, in which each rank and micro-batch has a valid unit",
    audit_sees=(
        "A total weight that is the valid share of the targets (ignore_index against all), or a micro-batch without "
        "units that takes its share of a mean."
    ),
    repair=(
        "Divide summed losses by what counts in the whole window (the list of this rank's batches up to the step): "
        "n = sum((targets != -100).sum() for inputs, targets in window); dist.all_reduce(n); loss = "
        "F.cross_entropy(..., reduction='sum') / n, times dist.get_world_size() where the ranks are averaged (DDP). "
        "No other division."
    ),
    references=(
        "https://github.com/NVIDIA-NeMo/RL/issues/212",
        "https://github.com/ServiceNow/Fast-LLM/pull/426",
        "https://github.com/PrimeIntellect-ai/prime-rl/pull/674",
        "https://github.com/PrimeIntellect-ai/prime-rl/pull/1961",
    ),
    related=("zero-total", "partial-window-full-divisor", "departed-rank-counted", "denominator-window-mismatch"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(rows):
    """Turns sums into means over the valid units, zeros where there is none."""
    from fractions import Fraction

    means = [[Fraction(value, max(valid, 1)) for value in gradient] for gradient, valid, _ in rows]
    return means, Layout.grid({(0, m): valid for m, (_, valid, _) in enumerate(rows)})


def sample(source):
    """Draws rows with padding, some of them idle, one at least not."""
    width = source.randint(1, 3)
    valid_counts = [source.randint(0, 5) for _ in range(source.randint(0, 3))] + [source.randint(1, 5)]
    return [
        ([source.randint(-50, 50) if valid else 0 for _ in range(width)], valid, valid + source.randint(0, 4) or 1)
        for valid in valid_counts
    ]


def broken(rows):
    size = sum(size for _, _, size in rows)
    gradients = [gradient for gradient, _, _ in rows]
    return [sum(column) / size for column in zip(*gradients, strict=True)]


def attempt(rows):
    from fractions import Fraction

    means = [[Fraction(value, max(valid, 1)) for value in gradient] for gradient, valid, _ in rows]
    return [float(sum(column) / len(rows)) for column in zip(*means, strict=True)]


def fixed(rows):
    total = sum(valid for _, valid, _ in rows)
    gradients = [gradient for gradient, valid, _ in rows if valid]
    return [sum(column) / total for column in zip(*gradients, strict=True)]


def checks(N, solve, check):
    check("half padding", solve([([8 * N, -4], 2, 4)]), [4 * N, -2])
    check("unequal padding", solve([([N], 1, 4), ([7 * N], 3, 4)]), [2 * N])
    check("much padding", solve([([2 * N], N, 1024 * N)]), [2])
    check("no padding", solve([([6 * N], 3, 3), ([2 * N], 3, 3)]), [8 * N / 6])
    check("idle micro-batch", solve([([6 * N], 2, 2), ([0], 0, 2)]), [3 * N])
    check("idle on most ranks", solve([([0], 0, N), ([5 * N], 1, N), ([0], 0, N), ([0], 0, N)]), [5 * N])
    check("nothing valid", solve([([0], 0, N)]), [])
    check("no rows", solve([]), [])
