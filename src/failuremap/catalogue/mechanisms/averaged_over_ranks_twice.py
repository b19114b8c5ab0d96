"""Gradients are averaged over the ranks twice: 1/R^2 where 1/R is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=21,
    slug="averaged-over-ranks-twice",
    title="Gradients are averaged over the ranks twice",
    group="sum-or-mean",
    abstract="Two places divide by the number of ranks; the update is too small by that number.",
    root_cause="The wrapper averages, and the loop or the loss divides by the world size as well.",
    failure=(
        "Two ranks with mean gradients 1 and 3 step on 1, where 2 is right; on 64 ranks the step is 64 times too "
        "short, so that adding ranks seems to slow learning down."
    ),
    failed_approach=(
        "Taking out the other divisor in sight, that of the accumulation, leaves 1/R^2 for each micro-batch: right "
        "only where a window has as many micro-batches as there are ranks."
    ),
    relevance=(
        "Loss code written for nn.DataParallel or a loop of one's own is moved under DDP with its division; or the "
        "value reduced for the log, divided by the world size, is the one that goes backward. An adaptive optimizer "
        "cancels the factor, and clipping then never bites."
    ),
    limitations="All means are over equally many units, so that the mean over the ranks is right at all.",
    contract=(
        "Given, for each rank, the mean gradients of the micro-batches of one window, all over equally many units, "
        "return their mean: divided by the ranks once and by the window once; [] without a rank."
    ),
    domain=(
        "windows: one list for each rank, all of one length of 1 or more, of micro-batch gradients; a gradient is a "
        "list of integers, all of one length."
    ),
    clauses=(
        Clause("once", "algebraic", "Each rank weighs one over their number.", ("two ranks", "opposite gradients")),
        Clause(
            "window",
            "algebraic",
            "Each micro-batch weighs one over their number too, however many ranks there are.",
            ("as many micro-batches as ranks", "window of four"),
        ),
        Clause("copies", "algebraic", "Equal gradients give that gradient on any number of ranks.", ("more replicas",)),
        Clause("one-rank", "boundary", "One rank's window is averaged over its micro-batches alone.", ("one rank",)),
        Clause("nothing", "boundary", "Without a rank there is no update: [].", ("no rank",)),
    ),
    followed=(
        "mean_over_ranks",
        "weighted_mean_over_ranks",
        "rank_means_of_window_weighted_over_ranks",
        "window_means_of_rank_weighted_over_ranks",
    ),
    signs=signs({Sign.COEFFICIENTS_MEAN_TWICE}, {Sign.LOSS_OVER_WORLD}),
    never=frozenset({Sign.SINGLE_RANK, Sign.COEFFICIENTS_SUM}),
    separated_by="another number of micro-batches than ranks: this factor is that of the ranks",
    symptoms=(
        "DDP averages, and the script divides by the number of processes again.",
        "The update is too small by the world size: averaged by the hook and by hand.",
        "The gradient is divided by the world size twice.",
    ),
    audit_sees="Units that weigh alike and 1/R of a mean together, with reduction coefficients of 1/R^2.",
    repair=(
        "Divide by the world size in one place. DDP does it already: leave / dist.get_world_size() out of the loss "
        "and out of the loop over p.grad. Without DDP keep one of them. Where counts differ between the ranks, see "
        "replica-means-ignore-counts as well."
    ),
    references=(
        "https://github.com/tczhangzhi/pytorch-distributed/issues/14",
        "https://github.com/deepspeedai/DeepSpeed/pull/4957",
        "https://github.com/sanderwood/bgpt/issues/5",
    ),
    related=("global-denominator-averaged-again", "divided-twice", "replicas-summed", "group-divisor-mismatch"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(windows):
    """Takes each micro-batch of each rank as one contribution of one unit."""
    cells = {(rank, m): gradient for rank, window in enumerate(windows) for m, gradient in enumerate(window)}
    return list(cells.values()), Layout.grid(dict.fromkeys(cells, 1))


def sample(source):
    """Draws windows of one shape."""
    width, length = source.randint(1, 4), source.randint(1, 3)
    ranks = range(source.randint(1, 5))
    return [[[source.randint(-50, 50) for _ in range(width)] for _ in range(length)] for _ in ranks]


def broken(windows):
    if not windows:
        return []
    divisor = len(windows) * len(windows) * len(windows[0])
    gradients = [gradient for window in windows for gradient in window]
    return [sum(column) / divisor for column in zip(*gradients, strict=True)]


def attempt(windows):
    if not windows:
        return []
    divisor = len(windows) * len(windows)
    gradients = [gradient for window in windows for gradient in window]
    return [sum(column) / divisor for column in zip(*gradients, strict=True)]


def fixed(windows):
    if not windows:
        return []
    divisor = len(windows) * len(windows[0])
    gradients = [gradient for window in windows for gradient in window]
    return [sum(column) / divisor for column in zip(*gradients, strict=True)]


def checks(N, solve, check):
    check("two ranks", solve([[[N, 2 * N]], [[3 * N, 4 * N]]]), [2 * N, 3 * N])
    check("as many micro-batches as ranks", solve([[[N], [3 * N]], [[5 * N], [7 * N]]]), [4 * N])
    check("window of four", solve([[[N]] * 4, [[3 * N]] * 4]), [2 * N])
    check("more replicas", solve([[[8]]] * (N + 1)), [8])
    check("opposite gradients", solve([[[N]], [[-N]]]), [0])
    check("one rank", solve([[[N], [3 * N]]]), [2 * N])
    check("no rank", solve([]), [])
