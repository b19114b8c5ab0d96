"""A globally normalised gradient is averaged over ranks again: n/(R N) where n/N is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=20,
    slug="global-denominator-averaged-again",
    title="A globally normalised gradient is averaged over ranks again",
    group="sum-or-mean",
    abstract="The loss is divided by the count of all ranks, and the reduction divides by the number of ranks too.",
    root_cause="Half of a repair: the denominator became global, and the mean over the ranks stayed.",
    failure=(
        "Ranks with 1 and 3 tokens and summed gradients 1 and 7: 8/4 = 2 is right, and the mean over two ranks makes "
        "it 1. All tokens weigh alike, so nothing but the length of the step is wrong."
    ),
    failed_approach=(
        "Dividing by the mean count of a rank instead undoes the division of the ranks exactly, but kept as an "
        "integer it is rounded down: 3 tokens on 2 ranks become 1 each, and the step is half as long again."
    ),
    relevance=(
        "The usual second act after replica-means-ignore-counts. transformers met it under nn.DataParallel, torchtitan "
        "under DDP after its FSDP averaging had been switched off, verl in one aggregation mode, and Arctic-Platform "
        "on one backend, where dp_size was lost on the way. Adam cancels a constant factor, so it may surface as a "
        "gradient norm, or a clipping rate, that depends on the size of the job."
    ),
    limitations="A reduction that sums is not modelled: there the same loss is right as it stands.",
    contract=(
        "Given each rank's [gradient_sum, count] and a reduction that averages the ranks, return the sum of the "
        "gradients over the count of all ranks; [] without a unit."
    ),
    domain=(
        "rows: a list of (gradient, count) pairs, one for each rank; gradient a list of integers, all of one length, "
        "the sum over its count units, zeros where the count is 0; count an integer of 0 or more."
    ),
    clauses=(
        Clause(
            "global-mean",
            "algebraic",
            "The sum is divided by the units of all ranks and by nothing else.",
            ("two ranks", "three ranks", "indivisible total"),
        ),
        Clause("equal-counts", "algebraic", "With equal counts it is the mean of the ranks' means.", ("equal counts",)),
        Clause(
            "idle-rank",
            "boundary",
            "A rank without units changes nothing, though it takes part in the reduction.",
            ("a rank without units",),
        ),
        Clause("one-rank", "boundary", "One rank's sum is divided by its count.", ("one rank",)),
        Clause("zero-total", "boundary", "Without a unit there is no update: [].", ("no unit", "no rank")),
    ),
    followed=("weighted_mean_over_ranks",),
    signs=signs({Sign.COEFFICIENTS_MEAN}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="another number of micro-batches than ranks: this factor is that of the ranks",
    symptoms=(
        "The loss is divided by the global number of tokens, and DDP divides by the world size once more.",
        "The gradient is 1/R of the intended one; Adam hides it, clipping shows it.",
    ),
    audit_sees=(
        "Units that weigh alike, whatever the counts of their ranks, and 1/R of a mean together; the reduction's "
        "coefficients are 1/R."
    ),
    repair=(
        "Undo the mean over the ranks: (loss * dist.get_world_size()).backward(), where loss is the summed loss "
        "over the count of all ranks. Or, in a loop of your own, all-reduce p.grad and leave / "
        "dist.get_world_size() out."
    ),
    references=(
        "https://github.com/huggingface/transformers/issues/37474",
        "https://github.com/pytorch/torchtitan/pull/2323",
        "https://github.com/Snowflake-AI-Research/Arctic-Platform/pull/119",
        "https://github.com/verl-project/verl/pull/5366",
        "https://github.com/meta-pytorch/torchtune/pull/1917",
    ),
    related=("replica-means-ignore-counts", "averaged-over-ranks-twice", "compensation-without-cause"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(rows):
    """Turns sums into means, with the layout of their counts."""
    from fractions import Fraction

    means = [[Fraction(value, max(count, 1)) for value in gradient] for gradient, count in rows]
    return means, Layout.from_counts([count for _, count in rows])


def sample(source):
    """Draws rows of one width, with a count of 1 or more on each."""
    width = source.randint(1, 4)
    vectors = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 6))]
    return [(vector, source.randint(1, 9)) for vector in vectors]


def broken(rows):
    total = sum(count for _, count in rows)
    if not total:
        return []
    return [sum(column) / (total * len(rows)) for column in zip(*(gradient for gradient, _ in rows), strict=True)]


def attempt(rows):
    total = sum(count for _, count in rows)
    if not total:
        return []
    count_per_rank = max(total // len(rows), 1)
    divisor = count_per_rank * len(rows)
    return [sum(column) / divisor for column in zip(*(gradient for gradient, _ in rows), strict=True)]


def fixed(rows):
    total = sum(count for _, count in rows)
    if not total:
        return []
    return [sum(column) / total for column in zip(*(gradient for gradient, _ in rows), strict=True)]


def checks(N, solve, check):
    check("two ranks", solve([([N], 1), ([7 * N], 3)]), [2 * N])
    check("three ranks", solve([([N, 4], 1), ([2 * N, 4], 1), ([9 * N, 4], 2)]), [3 * N, 3])
    check("indivisible total", solve([([3 * N], 1), ([6 * N], 2)]), [3 * N])
    check("equal counts", solve([([2 * N], 2), ([6 * N], 2)]), [2 * N])
    check("a rank without units", solve([([4 * N], 2), ([0], 0)]), [2 * N])
    check("one rank", solve([([4 * N, 8 * N], 4)]), [N, 2 * N])
    check("no unit", solve([([0], 0), ([0], 0)]), [])
    check("no rank", solve([]), [])
