"""Accumulated micro-batch means are summed without a window divisor: M times the right weight."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=31,
    slug="window-sum-not-mean",
    title="Accumulated micro-batch means are summed without a window divisor",
    group="window-divisor",
    abstract="The update grows with the number of accumulated micro-batches, as if the learning rate did.",
    root_cause="backward() adds to .grad, and nothing divides the mean losses by the number of micro-batches.",
    failure=(
        "Two micro-batches with mean gradients 2 and 4 over equally many units give 6, where 3 is right; with four "
        "of them the factor is 4."
    ),
    failed_approach=(
        "Dividing each mean loss by the number of micro-batches ends the growth and nothing else: an empty "
        "micro-batch still takes its share, and a long one weighs as much as a short one."
    ),
    relevance=(
        "Raising the accumulation to fit a larger batch raises the step with it, so that training diverges, or is "
        "clipped at every step. It came with pipeline schedules (torch.distributed.pipelining, DeepSpeed's pipeline "
        "engine) and with losses whose trainer took them to be normalised already (transformers, TRL)."
    ),
    limitations="An optimizer that undoes the scale of its gradient, such as Adam, is not modelled.",
    contract=(
        "Given each rank's window as a list of [gradient_mean, count] rows, one for each micro-batch, return the "
        "elementwise mean over the units of all of them; rows without units contribute nothing, and without any "
        "unit the result is []."
    ),
    domain=(
        "windows: a list of lists of (gradient, count) pairs, as many on each rank; gradient a list of integers, all "
        "of one length, zeros where the count is 0; count an integer of 0 or more."
    ),
    clauses=(
        Clause(
            "window-mean",
            "algebraic",
            "More micro-batches of the same mean leave the update as it is.",
            ("two equal micro-batches", "four alike", "two ranks of two"),
        ),
        Clause("weighs-by-count", "algebraic", "Each micro-batch weighs its count.", ("unequal counts",)),
        Clause("window-of-one", "boundary", "A window of one is the mean over the ranks.", ("window of one",)),
        Clause("zero-count", "boundary", "A micro-batch without units contributes nothing.", ("empty micro-batch",)),
        Clause("zero-total", "boundary", "Without any unit there is no update: [].", ("no unit", "no rank")),
    ),
    followed=(
        "mean_over_ranks_sum_over_window",
        "weighted_mean_times_window",
        "rank_means_of_window_weighted_times_window",
        "sum_of_globally_weighted_micro_batches",
        "sum",
    ),
    attempt_follows="mean",
    never=frozenset({Sign.SINGLE_MICRO_BATCH}),
    separated_by="another number of micro-batches than ranks: this factor is that of the window",
    audit_sees="A total weight that is the number of micro-batches in the window, with units that weigh alike.",
    repair=(
        "Divide summed losses once, by the count of the whole window (the list of this rank's batches up to the "
        "step): n = sum((targets != -100).sum() for inputs, targets in window); with several ranks "
        "dist.all_reduce(n); loss = F.cross_entropy(..., reduction='sum') / n, times dist.get_world_size() where "
        "the ranks are averaged (DDP). Or, for equal counts and averaged ranks: (loss / len(window)).backward()"
    ),
    references=(
        "https://github.com/pytorch/pytorch/pull/144352",
        "https://github.com/huggingface/transformers/issues/37766",
        "https://github.com/verl-project/verl/pull/3332",
        "https://github.com/deepspeedai/DeepSpeed/issues/7773",
        "https://github.com/MakazhanAlpamys/Soup/issues/720",
    ),
    related=("mean-of-microbatch-means", "divided-twice", "late-division", "replicas-summed"),
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
    return [sum(column) / len(windows) for column in zip(*gradients, strict=True)]


def attempt(windows):
    gradients = [gradient for window in windows for gradient, _ in window]
    return [sum(column) / (len(windows) * len(windows[0])) for column in zip(*gradients, strict=True)]


def fixed(windows):
    rows = [row for window in windows for row in window if row[1]]
    total = sum(count for _, count in rows)
    sums = [[value * count for value in gradient] for gradient, count in rows]
    return [sum(column) / total for column in zip(*sums, strict=True)]


def checks(N, solve, check):
    check("two equal micro-batches", solve([[([2 * N], 3), ([4 * N], 3)]]), [3 * N])
    check("four alike", solve([[([N, -N], 2), ([N, -N], 2), ([N, -N], 2), ([N, -N], 2)]]), [N, -N])
    check("two ranks of two", solve([[([N], 1), ([3 * N], 1)], [([5 * N], 1), ([7 * N], 1)]]), [4 * N])
    check("unequal counts", solve([[([N], 1), ([5 * N], 3)]]), [4 * N])
    check("window of one", solve([[([3 * N], 2)], [([N], 2)]]), [2 * N])
    check("empty micro-batch", solve([[([4 * N], 2), ([0], 0)]]), [4 * N])
    check("no unit", solve([[([0], 0)], [([0], 0)]]), [])
    check("no rank", solve([]), [])
