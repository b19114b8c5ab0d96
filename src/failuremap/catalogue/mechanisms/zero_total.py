"""A zero total of weights poisons the aggregation: 0/0."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from fractions import Fraction

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=3,
    slug="zero-total",
    title="A zero total of weights poisons the aggregation",
    group="counts-across-ranks",
    abstract="A rank, or a whole batch, without a valid unit divides by zero, and nan reaches every parameter.",
    root_cause="A mean over no unit is 0/0, which is nan in floating point, and the reduction spreads it.",
    failure=(
        "Two ranks whose answers were all cut off have a summed gradient of 0 and a count of 0 each. The update is "
        "0/0 = nan in every element, and so are all weights after one step."
    ),
    failed_approach=(
        "A divisor of at least 1 stops the nan, and returns zeros instead of no update: the optimizer steps on them, "
        "with momentum and weight decay. Weights that add up to less than 1 lose a part of their step as well."
    ),
    relevance=(
        "Instruction tuning masks the prompt, so truncation leaves batches without any target; federated clients may "
        "report no example. Met in OLMo-core and NeMo Automodel, and in Flower, whose entry points disagreed on it."
    ),
    limitations="Whether the ranks agree that there is no update is left out; here one process sees all rows.",
    contract=(
        "Given [gradient_sum, weight] rows, return the sum of the gradients over the sum of the weights; where that "
        "is zero there is no update: []."
    ),
    domain=(
        "rows: a list of (gradient_sum, weight) pairs; gradient_sum a list of finite numbers, all of one length, all "
        "0 where the weight is 0; weight a number of 0 or more, of which fractions are allowed."
    ),
    clauses=(
        Clause(
            "no-update",
            "boundary",
            "A total weight of zero gives no update: neither nan nor zeros.",
            ("all weights zero", "one row without weight", "no rows"),
        ),
        Clause(
            "empty-among-others",
            "boundary",
            "A row of weight 0 beside others changes nothing.",
            ("one empty row among others",),
        ),
        Clause(
            "mean",
            "algebraic",
            "The update is the sum over the total weight.",
            ("unequal weights", "single row"),
        ),
        Clause(
            "small-total",
            "numeric",
            "A total below 1 divides like any other.",
            ("weights below one", "a total of a quarter"),
        ),
    ),
    by_signs_alone=True,
    signs=signs({Sign.NONFINITE, Sign.EMPTY_CONTRIBUTION}),
    separated_by="a batch in which each rank and micro-batch has a valid unit",
    symptoms=(
        "A rank whose labels are all -100 makes every rank's loss NaN.",
        "No supervised token in the batch: 0/0.",
    ),
    audit_sees="An update that is not finite, at a step where a rank or micro-batch counts no unit.",
    repair=(
        "Divide summed losses, which are 0 over nothing, by the count of the whole window (the list of this rank's "
        "batches up to the step): n = sum((targets != -100).sum() for inputs, targets in window); "
        "dist.all_reduce(n); loss = F.cross_entropy(..., reduction='sum') / n.clamp(min=1), times "
        "dist.get_world_size() where the ranks are averaged (DDP). Step where there was something: if n > 0: "
        "optimizer.step(); n is the same on all ranks, so they decide alike."
    ),
    references=(
        "https://github.com/allenai/OLMo-core/pull/657",
        "https://github.com/flwrlabs/flower/issues/7645",
        "https://github.com/flwrlabs/flower/issues/7708",
        "https://github.com/NVIDIA-NeMo/Automodel/issues/3796",
    ),
    related=("zero-count-times-nan", "divisor-counts-idle-parts", "replica-means-ignore-counts"),
    published="2026-11-30",
    modified="2026-11-30",
)


def broken(rows):
    def divide(value, total):
        # as tensors divide: 0/0 is no error
        return value / total if total else float("nan")

    if not rows:
        return []
    total = sum(weight for _, weight in rows)
    return [divide(sum(column), total) for column in zip(*(gradient for gradient, _ in rows), strict=True)]


def attempt(rows):
    if not rows:
        return []
    total = max(sum(weight for _, weight in rows), 1)
    return [sum(column) / total for column in zip(*(gradient for gradient, _ in rows), strict=True)]


def fixed(rows):
    total = sum(weight for _, weight in rows)
    if not total:
        return []
    return [sum(column) / total for column in zip(*(gradient for gradient, _ in rows), strict=True)]


def checks(N, solve, check):
    import math

    def seen(update):
        return ["nan" if math.isnan(value) else value for value in update]

    check("unequal weights", seen(solve([([N, 2 * N], 1), ([3 * N, 0], 3)])), [N, N / 2])
    check("single row", seen(solve([([6 * N, -2 * N], 2)])), [3 * N, -N])
    check("one empty row among others", seen(solve([([0], 0), ([4 * N], 2)])), [2 * N])
    check("all weights zero", seen(solve([([0, 0], 0)] * (N + 1))), [])
    check("one row without weight", seen(solve([([0], 0)])), [])
    check("no rows", seen(solve([])), [])
    check("weights below one", seen(solve([([N], 0.25), ([N], 0.25)])), [4 * N])
    check("a total of a quarter", seen(solve([([N, -N], 0.25), ([0, 0], 0)])), [4 * N, -4 * N])


def sample(source):
    """Draws rows with weights in quarters; in one of four draws all are 0."""
    width, most = source.randint(1, 4), source.choice([0, 3, 8, 24])
    weights = [source.randrange(most + 1) / 4 for _ in range(source.randint(1, 6))]
    return [([source.randint(-50, 50) if weight else 0 for _ in range(width)], weight) for weight in weights]


def contributions(rows):
    """Divides each row into its mean gradient, and takes the weights as counts."""
    means = [[Fraction(value) / Fraction(weight) for value in gradient] if weight else [] for gradient, weight in rows]
    return means, Layout.from_counts([Fraction(weight) for _, weight in rows])


def edges(source):
    """Draws weights of tenths, of trillionths, far smaller and far larger, rows without weight, and rows twice."""
    rows = [([source.randint(-50, 50) for _ in range(2)], weight) for weight in (0.1, 0.7, 1e-12)]
    empty = ([0, 0], 0)
    weights = (1e-30, 3e-30), (2.0**-60, 0.25), (1e-280, 1e-290), (10**12, 0.1), (2.5e15, 3), (1e290, 1e280)
    several = [rows * 3 + rows[:1], rows * 5 + rows[1:2]]
    far = [[(row[0], weight) for row, weight in zip(rows, pair, strict=False)] for pair in weights]
    return [
        *several,
        rows,
        [empty, *rows],
        [*rows[:1], empty],
        rows[2:],
        [empty, ([0, 0], 0.0)],
        [([], 1), ([], 2)],
        *far,
    ]
