"""Buffers keep the first replica's values, while the parameters are averaged."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism

MECHANISM = Mechanism(
    number=57,
    slug="buffers-first-only",
    title="Buffers keep the first replica's values",
    group="replica-agreement",
    abstract="What is saved has everyone's weights and the first replica's running statistics.",
    root_cause="Aggregation walks model.parameters(), and buffers are none; or it copies them from rank 0.",
    failure=(
        "A running mean of 0 over 1 example on the first replica and of 4 over 3 on the second: the model is saved "
        "with 0, where 3 is the mean over the 4 examples."
    ),
    failed_approach=(
        "Averaging the whole state_dict by counts mends the statistics and averages the batch counters with them: "
        "those that ran in step stay what they are, others become a number of batches that no replica has seen."
    ),
    relevance=(
        "Training looks right, since batch norm uses the batch's own statistics there; evaluation and the exported "
        "model are off, most with unlike data on the replicas. Met in federated averaging over parameters(), and in "
        "data-parallel training, where DDP's broadcast_buffers=True sends rank 0's before each forward."
    ),
    limitations=(
        "Running variances are averaged like means; the variance over all examples would also hold the spread of the "
        "replicas' means. Buffers that are neither statistics nor counters are left out."
    ),
    contract=(
        "Given each replica's running mean, its counter of batches and its count of examples, return the mean by "
        "count, elementwise, and last the largest counter; replicas without examples take no part, and where no "
        "example was seen the result is []."
    ),
    domain=(
        "rows: a list of dicts with `mean`, a list of finite numbers, all of one length; `batches`, an integer of 0 or "
        "more; `count`, an integer of 0 or more. The mean of a row with count 0 may hold anything."
    ),
    clauses=(
        Clause(
            "weighs-by-count",
            "algebraic",
            "A statistic is the mean of the replicas' by their counts.",
            ("unequal counts", "order of the replicas"),
        ),
        Clause("counter", "algebraic", "A counter is the largest one, an integer.", ("unequal counters",)),
        Clause("alike", "algebraic", "Replicas that are alike keep what they have.", ("replicas alike",)),
        Clause("zero-count", "boundary", "A replica without examples takes no part.", ("idle first replica",)),
        Clause("one-replica", "boundary", "A single replica's buffers are returned.", ("one replica",)),
        Clause(
            "zero-total", "boundary", "Without an example there is nothing to keep: [].", ("no example", "no replica")
        ),
    ),
    promised="",
    law="Statistics are the exact mean by count over rows with examples, the counter is their largest; [] without any.",
    separated_by="the buffers in what is saved, compared with those of all replicas",
    symptoms=("BatchNorm running statistics stay those of the first rank or client.",),
    audit_sees="Nothing of the buffers: the gradients of a job that has it are added up as they should be.",
    audit_blind="Buffers take no part in an update, and updates are all that the audit looks at.",
    repair=(
        "Before evaluating or saving, average the statistics: for b in model.buffers(): dist.all_reduce(b.mul_(n / "
        "total)) where b.is_floating_point(), else dist.all_reduce(b, op=dist.ReduceOp.MAX), n being the examples of "
        "the rank and total those of all; under DDP switch its own broadcast of buffers off, lest rank 0's arrive "
        "first. On GPUs SyncBatchNorm keeps them equal."
    ),
    references=(
        "https://github.com/TsingZ0/PFLlib/issues/260",
        "https://github.com/SymbioticLab/FedScale/issues/57",
        "https://github.com/open-mmlab/mmdetection/pull/4582",
        "https://github.com/facebookresearch/ClassyVision/pull/304",
        "https://github.com/pytorch/pytorch/issues/30718",
    ),
    related=("first-rank-broadcast", "metric-reduction", "replica-means-ignore-counts"),
    published="2026-11-30",
    modified="2026-11-30",
)


def law(rows, solve):
    """Compares the statistics with exact means, and the counter with the largest."""
    from fractions import Fraction

    result = solve(rows)
    seen = [row for row in rows if row["count"]]
    if not seen:
        return result == []
    total = sum(row["count"] for row in seen)
    terms = [[Fraction(value) * row["count"] / total for value in row["mean"]] for row in seen]
    right = [*map(sum, zip(*terms, strict=True)), max(row["batches"] for row in seen)]
    return len(result) == len(right) and all(
        abs(Fraction(one) - other) < Fraction(1, 10**9) for one, other in zip(result, right, strict=True)
    )


def sample(source):
    """Draws 1 to 5 replicas, some without examples."""
    width = source.randint(1, 3)
    return [
        {
            "mean": [source.randint(-50, 50) for _ in range(width)],
            "batches": source.randint(1, 9),
            "count": source.randint(0, 9),
        }
        for _ in range(source.randint(1, 5))
    ]


def broken(rows):
    if not any(row["count"] for row in rows):
        return []
    return [*rows[0]["mean"], rows[0]["batches"]]


def attempt(rows):
    seen = [row for row in rows if row["count"]]
    states = [[*row["mean"], row["batches"]] for row in seen]
    total = sum(row["count"] for row in seen)
    weighted = [[value * row["count"] for value in state] for state, row in zip(states, seen, strict=True)]
    return [sum(column) / total for column in zip(*weighted, strict=True)]


def fixed(rows):
    seen = [row for row in rows if row["count"]]
    if not seen:
        return []
    total = sum(row["count"] for row in seen)
    weighted = [[value * row["count"] for value in row["mean"]] for row in seen]
    means = [sum(column) / total for column in zip(*weighted, strict=True)]
    return [*means, max(row["batches"] for row in seen)]


def checks(N, solve, check):
    one, three = {"mean": [0, N], "batches": 2, "count": 1}, {"mean": [4 * N, N], "batches": 2, "count": 3}
    check("unequal counts", solve([one, three]), [3 * N, N, 2])
    check("order of the replicas", solve([three, one]), [3 * N, N, 2])
    longer = {"mean": [2 * N, N], "batches": N + 3, "count": 1}
    check("unequal counters", solve([one, longer]), [N, N, N + 3])
    check("replicas alike", solve([one, one, one]), [0, N, 2])
    idle = {"mean": [9, 9 * N], "batches": 7, "count": 0}
    check("idle first replica", solve([idle, three]), [4 * N, N, 2])
    check("one replica", solve([three]), [4 * N, N, 2])
    check("no example", solve([idle]), [])
    check("no replica", solve([]), [])


def edges(source):
    """Draws replicas without examples that hold what no forward has filled, and counters that are equal, large or 0."""
    nan, inf = float("nan"), float("inf")
    seen = [
        {"mean": [source.randint(-50, 50) / 8 for _ in range(2)], "batches": source.randint(1, 9), "count": count}
        for count in (3, 1, 4)
    ]
    idle = [{"mean": mean, "batches": 10**6, "count": 0} for mean in ([nan, inf], [0, -inf])]
    unlike = {"mean": [0.5, -2], "batches": 10**9, "count": 2}
    counters = [[{**row, "batches": batches} for row in (*seen, *seen)] for batches in (0, 4, 2**31, 10**12 + 1)]
    mixed = [[*idle, *seen], [*seen, *idle], idle, [seen[0], idle[0], seen[1]], [*seen, unlike], [unlike, *seen]]
    return [*mixed, *counters, [{"mean": [0, 0], "batches": 0, "count": 3}]]
