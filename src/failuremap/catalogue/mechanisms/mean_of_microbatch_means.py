"""Micro-batch means are averaged without their counts: 1/M where n_m/N is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=32,
    slug="mean-of-microbatch-means",
    title="Micro-batch means are averaged without their token counts",
    group="window-divisor",
    abstract="A unit in a short micro-batch weighs more than one in a long micro-batch of the same window.",
    root_cause="Each backward divides by its own micro-batch's count; the window then weighs them alike.",
    failure=(
        "A micro-batch of 1 token with gradient 2 and one of 3 tokens with mean gradient 6 give 4, where 5 is the mean "
        "over the tokens: the lone token weighs three times one of the others."
    ),
    failed_approach=(
        "Counting the tokens of the rank's own window repairs one process. Under DDP the ranks' means are averaged "
        "as before, so a rank with few tokens is still over-represented."
    ),
    relevance=(
        "Accumulation is meant to stand in for a larger batch, and does not where lengths vary: the result depends "
        "on how the batch was cut, and short answers dominate fine-tuning. Met in Lightning, torchtune, nanochat and "
        "mlx-lm, and in RL losses whose micro-batch is one sequence (open-instruct, TRL, prime-rl)."
    ),
    limitations="Counts are given; which tokens count (after the label shift, without padding) is not modelled.",
    contract=(
        "Given each rank's window as a list of [gradient_mean, token_count] rows, return the elementwise mean over "
        "the tokens of all ranks and micro-batches; without any token return []."
    ),
    domain=(
        "windows: a list of lists of (gradient, count) pairs, as many on each rank; gradient a list of integers, all "
        "of one length, zeros where the count is 0; count an integer of 0 or more."
    ),
    clauses=(
        Clause(
            "weighs-by-count",
            "algebraic",
            "Each row weighs its tokens over all tokens.",
            ("short and long", "three lengths", "one long of three"),
        ),
        Clause(
            "across-ranks",
            "algebraic",
            "The total is that of all ranks, not of one.",
            ("ranks of unequal totals", "a rank of one token"),
        ),
        Clause("equal-counts", "algebraic", "With equal counts it is the plain mean.", ("equal lengths",)),
        Clause("single", "boundary", "A single micro-batch is returned as it is.", ("single micro-batch",)),
        Clause("zero-total", "boundary", "Without any token there is no update: [].", ("no token",)),
    ),
    followed=("mean", "window_means_of_rank_weighted"),
    attempt_follows="rank_means_of_window_weighted",
    signs=signs({Sign.UNEQUAL_COUNTS_ACROSS_MICRO_BATCHES}),
    never=frozenset({Sign.SINGLE_MICRO_BATCH}),
    separated_by="unequal counts in the micro-batches, with equal counts on the ranks",
    audit_sees=(
        "Effective weights that differ between the micro-batches of a window, in inverse proportion to their counts."
    ),
    repair=(
        "Divide summed losses once, by the count of the whole window (the list of this rank's batches up to the "
        "step). Before its first backward: n = sum((targets != -100).sum() for inputs, targets in window); with "
        "several ranks dist.all_reduce(n). Then in each: loss = F.cross_entropy(..., reduction='sum') / n, times "
        "dist.get_world_size() where the ranks are averaged (DDP). No / accumulation_steps."
    ),
    references=(
        "https://github.com/meta-pytorch/torchtune/pull/1875",
        "https://github.com/karpathy/nanochat/pull/400",
        "https://github.com/ml-explore/mlx-lm/pull/1413",
        "https://github.com/Lightning-AI/pytorch-lightning/issues/20350",
        "https://github.com/allenai/open-instruct/pull/1137",
    ),
    related=("replica-means-ignore-counts", "weight-kind-mismatch", "window-sum-not-mean", "divided-twice"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(windows):
    """Takes each row as the contribution of its rank and micro-batch."""
    cells = {(rank, m): row for rank, window in enumerate(windows) for m, row in enumerate(window)}
    return [gradient for gradient, _ in cells.values()], Layout.grid({at: count for at, (_, count) in cells.items()})


def sample(source):
    """Draws windows of one length, with a count of 1 or more in each micro-batch."""
    width, length = source.randint(1, 3), source.randint(1, 4)
    return [
        [([source.randint(-50, 50) for _ in range(width)], source.randint(1, 9)) for _ in range(length)]
        for _ in range(source.randint(1, 3))
    ]


def broken(windows):
    gradients = [gradient for window in windows for gradient, _ in window]
    return [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]


def attempt(windows):
    from fractions import Fraction

    means = []
    for window in windows:
        total = sum(count for _, count in window)
        if total:
            sums = [[value * count for value in gradient] for gradient, count in window]
            means.append([Fraction(sum(column), total) for column in zip(*sums, strict=True)])
    return [float(sum(column) / len(windows)) for column in zip(*means, strict=True)]


def fixed(windows):
    rows = [row for window in windows for row in window if row[1]]
    total = sum(count for _, count in rows)
    sums = [[value * count for value in gradient] for gradient, count in rows]
    return [sum(column) / total for column in zip(*sums, strict=True)]


def checks(N, solve, check):
    check("short and long", solve([[([2 * N], 1), ([6 * N], 3)]]), [5 * N])
    check("three lengths", solve([[([N, 0], 1), ([N, 4], 2), ([5 * N, 8], 5)]]), [3.5 * N, 6])
    check("one long of three", solve([[([0], N), ([0], N), ([3 * N], 2 * N)]]), [1.5 * N])
    check("ranks of unequal totals", solve([[([N], 1), ([N], 1)], [([5 * N], 3), ([5 * N], 3)]]), [4 * N])
    check("a rank of one token", solve([[([8 * N], 1), ([0], 0)], [([0], N), ([0], 7 - N)]]), [N])
    check("equal lengths", solve([[([N], 4), ([3 * N], 4)], [([5 * N], 4), ([7 * N], 4)]]), [4 * N])
    check("single micro-batch", solve([[([N, -N], N)]]), [N, -N])
    check("no token", solve([[([0], 0)] * N]), [])
