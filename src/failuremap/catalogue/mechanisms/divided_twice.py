"""The accumulated gradient is divided by the window twice: 1/M of the right weight."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=33,
    slug="divided-twice",
    title="The accumulated gradient is divided by the window twice",
    group="window-divisor",
    abstract="The update shrinks with the number of accumulated micro-batches.",
    root_cause="The loss is divided by the window or its units, and a trainer or engine divides by the window again.",
    failure=(
        "Two micro-batches whose summed gradients are 2 and 10, over 4 units together, give 1.5, where 12/4 = 3 is "
        "right; over eight micro-batches an eighth is left."
    ),
    failed_approach=(
        "Taking out the division by the window's units and leaving the engine's gives back the size, and with it "
        "the mean of the micro-batches' means: right for equal counts alone."
    ),
    relevance=(
        "Loss curves look like those of a learning rate that is too small, so the rate is tuned to cover it and is "
        "wrong again at another accumulation. It needs two components that each believe the division theirs: "
        "Lightning with DeepSpeed, transformers with accelerate, a schedule of Megatron-Core under weights that "
        "summed to one already (AReaL)."
    ),
    limitations="The auxiliary terms of a loss, which one of the two divisions may be meant for, are left out.",
    contract=(
        "Given one [gradient_sum, count] row for each micro-batch of a window, divide by the window's units once: "
        "the sum of the gradients over the sum of the counts; without any unit return []."
    ),
    domain=(
        "window: a list of (gradient, count) pairs; gradient a list of integers, all of one length, the sum over its "
        "count units, zeros where the count is 0; count an integer of 0 or more."
    ),
    clauses=(
        Clause(
            "divided-once",
            "algebraic",
            "The result is the mean over the units, however many micro-batches hold them.",
            ("two micro-batches", "four micro-batches", "cut finer"),
        ),
        Clause("weighs-by-count", "algebraic", "A unit weighs alike in a long and a short one.", ("unequal counts",)),
        Clause("window-of-one", "boundary", "A window of one is divided by its units.", ("window of one",)),
        Clause("zero-count", "boundary", "A micro-batch without units changes nothing.", ("empty micro-batch",)),
        Clause("zero-total", "boundary", "Without any unit there is no update: [].", ("no unit",)),
    ),
    followed=(
        "weighted_mean_over_window",
        "mean_over_window",
        "rank_means_of_window_weighted_over_window",
        "window_means_of_rank_weighted_over_window",
    ),
    attempt_follows="mean",
    signs=signs(
        set(),
        {Sign.SINGLE_RANK},
        {Sign.COEFFICIENTS_MEAN},
        {Sign.COEFFICIENTS_SUM},
        {Sign.LOSS_OVER_WINDOW_TWICE},
    ),
    never=frozenset({Sign.SINGLE_MICRO_BATCH}),
    separated_by="another number of micro-batches than ranks: this factor is that of the window",
    audit_sees="A total weight of one over the number of micro-batches; where counts were used, units weigh alike.",
    repair=(
        "Divide in one place: leave / accumulation_steps out where the trainer or engine divides already, and where "
        "a summed loss is divided by the count of the whole window. Where counts differ, only the latter is right."
    ),
    references=(
        "https://github.com/Lightning-AI/pytorch-lightning/issues/6170",
        "https://github.com/huggingface/transformers/issues/35203",
        "https://github.com/modelscope/ms-swift/issues/10117",
        "https://github.com/unslothai/unsloth-zoo/pull/1023",
        "https://github.com/areal-project/AReaL/pull/1273",
    ),
    related=(
        "window-sum-not-mean",
        "averaged-over-ranks-twice",
        "mean-of-microbatch-means",
        "aux-term-other-denominator",
    ),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(window):
    """Turns sums into means of one rank's micro-batches."""
    from fractions import Fraction

    means = [[Fraction(value) / max(count, 1) for value in gradient] for gradient, count in window]
    return means, Layout.grid({(0, m): count for m, (_, count) in enumerate(window)})


def sample(source):
    """Draws a window with a count of 1 or more in each micro-batch."""
    width = source.randint(1, 3)
    return [
        ([source.randint(-50, 50) for _ in range(width)], source.randint(1, 9)) for _ in range(source.randint(1, 5))
    ]


def broken(window):
    total = sum(count for _, count in window)
    sums = [gradient for gradient, count in window if count]
    return [sum(column) / (total * len(window)) for column in zip(*sums, strict=True)]


def attempt(window):
    from fractions import Fraction

    means = [[Fraction(value, count) for value in gradient] for gradient, count in window if count]
    return [float(sum(column) / len(window)) for column in zip(*means, strict=True)]


def fixed(window):
    total = sum(count for _, count in window)
    sums = [gradient for gradient, count in window if count]
    return [sum(column) / total for column in zip(*sums, strict=True)]


def checks(N, solve, check):
    check("two micro-batches", solve([([2 * N], 2), ([10 * N], 2)]), [3 * N])
    check("four micro-batches", solve([([N], 1), ([2 * N], 1), ([3 * N], 1), ([6 * N], 1)]), [3 * N])
    check("cut finer", solve([([N, 2 * N], N), ([N, 2 * N], N)]), [1, 2])
    check("unequal counts", solve([([2 * N], 1), ([18 * N], 3)]), [5 * N])
    check("window of one", solve([([4 * N, -8], 4)]), [N, -2])
    check("empty micro-batch", solve([([6 * N], 2), ([0], 0)]), [3 * N])
    check("no unit", solve([([0], 0), ([0], 0)]), [])
