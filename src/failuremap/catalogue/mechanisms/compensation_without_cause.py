"""A world-size factor compensates a division that is not there: R times the right weight."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=19,
    slug="compensation-without-cause",
    title="A world-size factor compensates a division that is not there",
    group="sum-or-mean",
    abstract="The loss is multiplied by the number of ranks although no division by it has to be undone.",
    root_cause=(
        "The factor that undoes DDP's division of a globally normalised loss was taken over into a job "
        "that sums its gradients, or whose loss is a mean over the rank's own units."
    ),
    failure=(
        "Two ranks of 2 examples with mean gradients 1 and 3 under DDP: (2*1 + 2*3) / 2 = 4, where 2 is right. Each "
        "doubling of the job doubles the step."
    ),
    failed_approach=(
        "Tying the factor to the denominator alone mends the mean loss under DDP and keeps it for every loss over "
        "the global count, also where the ranks are summed and nothing divides."
    ),
    relevance=(
        "Two conventions meet in most code bases: nn.DataParallel adds the replicas up, DDP and torch_xla's "
        "optimizer_step average, and Horovod's documentation once said sum for what was a mean. sparseml removed such "
        "a factor from its DDP loss; detection trainers keep one on purpose, as a learning rate that grows with the "
        "job."
    ),
    limitations=(
        "A mean over a rank's own units is modelled with equal counts only, where the mean over the ranks is right. "
        "Own means that are summed need a division instead, and are left out."
    ),
    contract=(
        "Given each rank's [gradient_mean, count], what its loss was divided by, and whether the reduction averages "
        "the ranks, return the mean over all units; [] without a unit."
    ),
    domain=(
        "job: a dict with `rows`, a list of (gradient, count) pairs, gradient a list of integers of one length, count "
        "an integer of 0 or more; and `denominator` and `reduction`: 'own' (the rank's count) with 'mean' and equal "
        "counts, or 'all' (the count of all ranks) with 'sum' or 'mean'."
    ),
    clauses=(
        Clause(
            "own-mean",
            "algebraic",
            "A mean over the rank's own units needs no factor where ranks are averaged.",
            ("own mean, averaged", "own mean, three ranks"),
        ),
        Clause(
            "global-sum",
            "algebraic",
            "A loss over the global count needs no factor where ranks are summed.",
            ("global count, summed", "a rank without units"),
        ),
        Clause(
            "global-mean",
            "algebraic",
            "A loss over the global count needs the factor R where ranks are averaged.",
            ("global count, averaged",),
        ),
        Clause("one-rank", "boundary", "On one rank the factor is 1.", ("one rank",)),
        Clause("zero-total", "boundary", "Without a unit there is no update: [].", ("no unit",)),
    ),
    followed=(
        "weighted_mean_times_ranks",
        "sum_over_ranks_mean_over_window",
        "sum_of_rank_weighted_windows",
        "window_means_of_rank_weighted_times_ranks",
        "weighted_mean_times_ranks_twice",
        "mean_times_ranks_twice",
        "rank_means_of_window_weighted_times_ranks_twice",
        "sum",
    ),
    signs=signs({Sign.LOSS_TIMES_WORLD}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="another number of micro-batches than ranks: this factor is that of the ranks",
    symptoms=(
        "The loss is multiplied by the world size, and nothing averages.",
        "DDP was left out or sums, but the script still scales the loss up by dp_size.",
    ),
    audit_sees=(
        "Units that weigh R times their fair share, with reduction coefficients of 1/R: the surplus is in the scale "
        "that reached the loss."
    ),
    repair=(
        "Keep the factor only where a summed loss is divided by the global count and the ranks are averaged (DDP): "
        "F.cross_entropy(..., reduction='sum') * dist.get_world_size() / n, n = units of the window, all-reduced. "
        "Leave it out where the ranks are summed over such a loss, and on a mean loss under DDP (right for equal "
        "counts only)."
    ),
    references=(
        "https://github.com/neuralmagic/sparseml/pull/135",
        "https://github.com/pytorch/pytorch/issues/5778",
        "https://github.com/horovod/horovod/issues/6",
        "https://github.com/pytorch/xla/issues/2840",
    ),
    related=("replicas-summed", "global-denominator-averaged-again", "gathered-part-detached"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Splits the rows into mean gradients and the layout of their counts."""
    return [gradient for gradient, _ in job["rows"]], Layout.from_counts([count for _, count in job["rows"]])


def sample(source):
    """Draws a job of two ranks or more that needs no factor, with a count of 1 or more on each rank."""
    width, denominator = source.randint(1, 4), source.choice(["own", "all"])
    vectors = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(2, 6))]
    common = source.randint(1, 9)
    rows = [(vector, common if denominator == "own" else source.randint(1, 9)) for vector in vectors]
    return {"rows": rows, "denominator": denominator, "reduction": "mean" if denominator == "own" else "sum"}


def broken(job):
    rows = [(gradient, count) for gradient, count in job["rows"] if count]
    rank_count, total = len(job["rows"]), sum(count for _, count in rows)
    weights = [count if job["denominator"] == "all" else 1 for _, count in rows]
    divisor = (total if job["denominator"] == "all" else 1) * (rank_count if job["reduction"] == "mean" else 1)
    factor = rank_count
    columns = zip(*(gradient for gradient, _ in rows), strict=True)
    return [sum(w * x for w, x in zip(weights, column, strict=True)) * factor / divisor for column in columns]


def attempt(job):
    rows = [(gradient, count) for gradient, count in job["rows"] if count]
    rank_count, total = len(job["rows"]), sum(count for _, count in rows)
    weights = [count if job["denominator"] == "all" else 1 for _, count in rows]
    divisor = (total if job["denominator"] == "all" else 1) * (rank_count if job["reduction"] == "mean" else 1)
    factor = rank_count if job["denominator"] == "all" else 1
    columns = zip(*(gradient for gradient, _ in rows), strict=True)
    return [sum(w * x for w, x in zip(weights, column, strict=True)) * factor / divisor for column in columns]


def fixed(job):
    rows = [(gradient, count) for gradient, count in job["rows"] if count]
    rank_count, total = len(job["rows"]), sum(count for _, count in rows)
    weights = [count if job["denominator"] == "all" else 1 for _, count in rows]
    divisor = (total if job["denominator"] == "all" else 1) * (rank_count if job["reduction"] == "mean" else 1)
    factor = rank_count if (job["denominator"], job["reduction"]) == ("all", "mean") else 1
    columns = zip(*(gradient for gradient, _ in rows), strict=True)
    return [sum(w * x for w, x in zip(weights, column, strict=True)) * factor / divisor for column in columns]


def checks(N, solve, check):
    uneven = [([N], 1), ([5 * N], 3)]
    own, summed = {"denominator": "own", "reduction": "mean"}, {"denominator": "all", "reduction": "sum"}
    averaged = {"denominator": "all", "reduction": "mean"}
    check("own mean, averaged", solve({"rows": [([N], 2), ([3 * N], 2)], **own}), [2 * N])
    check("own mean, three ranks", solve({"rows": [([N], 1), ([2 * N], 1), ([6 * N], 1)], **own}), [3 * N])
    check("global count, summed", solve({"rows": uneven, **summed}), [4 * N])
    check("global count, averaged", solve({"rows": uneven, **averaged}), [4 * N])
    check("a rank without units", solve({"rows": [([N], 4), ([7], 0)], **summed}), [N])
    check("one rank", solve({"rows": [([N, 2 * N], N)], **own}), [N, 2 * N])
    check("no unit", solve({"rows": [([N], 0), ([N], 0)], **summed}), [])


def edges(source):
    """Draws jobs whose factor has its cause: the count of all ranks, and a reduction that averages them."""
    rows = [([source.randint(-50, 50) for _ in range(2)], source.randint(1, 9)) for _ in range(9)]
    idle = [([0, 0], 0), *rows[:2], ([0, 0], 0)]
    rank_rows = rows[:2], rows[:5], rows, idle, rows[:1]
    jobs = [{"rows": held, "denominator": "all", "reduction": "mean"} for held in rank_rows]
    return [*jobs, {"rows": idle, "denominator": "all", "reduction": "sum"}]
