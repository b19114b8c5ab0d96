"""Full replicas are summed as if they were partials: c = 1 where 1/R is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=16,
    slug="replicas-summed",
    title="Full replicas are summed as if they were partials",
    group="sum-or-mean",
    abstract="The update is the right one times the number of ranks: the learning rate grows with the job.",
    root_cause="The reduction adds, and neither the loss nor the optimizer divides by the number of ranks.",
    failure=(
        "Two ranks with the mean gradients 1 and 3 step on 4, where 2 is right; on 64 ranks the step is 64 times too "
        "long, with not a line changed since the script was tuned on one."
    ),
    failed_approach=(
        "Dividing p.grad by the world size after every backward of a window divides the early micro-batches again and "
        "again: with M of them the first one's share is R^-M. Right only where each window is one micro-batch."
    ),
    relevance=(
        "dist.all_reduce adds unless told otherwise, so a loop of one's own has it until somebody divides. Met as a "
        "sum over replicas of mean losses (Keras 3 under MirroredStrategy, jiant under DataParallel), as a sum on the "
        "sparse path alone (Horovod), and where a replicated gradient was taken for a Partial one (tensor parallelism "
        "in torchtitan)."
    ),
    limitations="All means are over equally many units; unequal counts add replica-means-ignore-counts to it.",
    contract=(
        "Given, for each rank, the mean gradients of the micro-batches of one window, all over equally many units, "
        "return the mean over all units; [] without a rank."
    ),
    domain=(
        "windows: one list for each rank, all of one length of 1 or more, of micro-batch gradients; a gradient is a "
        "list of integers, all of one length."
    ),
    clauses=(
        Clause("mean", "algebraic", "Each rank weighs one over their number.", ("two ranks", "three ranks")),
        Clause(
            "copies",
            "algebraic",
            "However many ranks hold the same gradient, it is the result.",
            ("equal replicas", "more replicas"),
        ),
        Clause("window", "algebraic", "All micro-batches of a window weigh alike.", ("window of two",)),
        Clause("one-rank", "boundary", "One rank's window is averaged over its micro-batches alone.", ("one rank",)),
        Clause("nothing", "boundary", "Without a rank there is no update: [].", ("no rank",)),
    ),
    followed=(
        "sum_over_ranks_mean_over_window",
        "weighted_mean_times_ranks",
        "sum_of_rank_weighted_windows",
        "window_means_of_rank_weighted_times_ranks",
        "sum",
    ),
    signs=signs({Sign.COEFFICIENTS_SUM}),
    never=frozenset({Sign.SINGLE_RANK, Sign.LOSS_TIMES_WORLD}),
    separated_by="another number of micro-batches than ranks: this factor is that of the ranks",
    symptoms=(
        "The gradient norm is 8 times as large on 8 GPUs.",
        "Gradients are summed over workers, not averaged; the loss grows with the number of GPUs.",
        "all_reduce(SUM) without a division by the world size.",
    ),
    audit_sees=(
        "Units that weigh alike and R times their fair share together, R being the number of ranks, with reduction "
        "coefficients of 1."
    ),
    repair=(
        "Divide once after the sum: for p in model.parameters(): dist.all_reduce(p.grad); p.grad /= "
        "dist.get_world_size(), with (loss / len(window)).backward() under accumulation. Where counts differ, sum "
        "only, and divide summed losses by the units of the window, all-reduced: F.cross_entropy(..., "
        "reduction='sum') / n"
    ),
    references=(
        "https://github.com/keras-team/keras/pull/20609",
        "https://github.com/nyu-mll/jiant/pull/989",
        "https://github.com/pytorch/torchtitan/pull/2106",
        "https://github.com/horovod/horovod/pull/2279",
        "https://github.com/pytorch/pytorch/issues/172932",
    ),
    related=("partials-averaged", "compensation-without-cause", "mean-of-summed-gradient", "window-sum-not-mean"),
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
    window_length = len(windows[0])
    gradients = [gradient for window in windows for gradient in window]
    return [sum(column) / window_length for column in zip(*gradients, strict=True)]


def attempt(windows):
    if not windows:
        return []
    rank_count, window_length = len(windows), len(windows[0])
    gradient = [0.0] * len(windows[0][0])
    for micro_batch in zip(*windows, strict=True):
        for part in micro_batch:
            gradient = [a + b for a, b in zip(gradient, part, strict=True)]
        gradient = [value / rank_count for value in gradient]
    return [value / window_length for value in gradient]


def fixed(windows):
    if not windows:
        return []
    rank_count, window_length = len(windows), len(windows[0])
    gradients = [gradient for window in windows for gradient in window]
    return [sum(column) / (rank_count * window_length) for column in zip(*gradients, strict=True)]


def checks(N, solve, check):
    check("two ranks", solve([[[N, 2 * N]], [[3 * N, 4 * N]]]), [2 * N, 3 * N])
    check("three ranks", solve([[[N]], [[2 * N]], [[6 * N]]]), [3 * N])
    check("window of two", solve([[[N], [3 * N]], [[5 * N], [7 * N]]]), [4 * N])
    check("equal replicas", solve([[[N, -N]], [[N, -N]]]), [N, -N])
    check("more replicas", solve([[[4]]] * (N + 1)), [4])
    check("one rank", solve([[[N], [3 * N]]]), [2 * N])
    check("no rank", solve([]), [])
