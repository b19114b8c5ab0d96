"""A collective fails halfway through the buckets, and the job steps on what is there."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=55,
    slug="half-reduced-after-failure",
    title="The step goes on after a reduction that failed halfway",
    group="synchronisation",
    abstract="Some buckets are reduced and some are local when an error is caught, and the optimizer steps on both.",
    root_cause="The error of one collective is caught where it is raised; nothing marks the whole step as void.",
    failure=(
        "Two buckets, 1 and 3 in the first, 10 and 20 in the second, which fails: the ranks step on [2, 10] and on "
        "[2, 20], where [2, 15] was meant and no step at all is right."
    ),
    failed_approach=(
        "The rank that caught the error skips its step. Ranks on which the same collective had finished, or whose "
        "error comes only after an asynchronous abort, still step, and are one step ahead from then on."
    ),
    relevance=(
        "One lost worker costs a step; a step on half-reduced gradients costs the run, since replicas that differ are "
        "not noticed. Elastic trainers that retry or go on after a failed all-reduce are prone to it; torchft lets all "
        "ranks vote before the optimizer may step."
    ),
    limitations=(
        "Errors are known when the step is decided on; a collective that reports success after an abort, and the new "
        "process group that the survivors need, are left out."
    ),
    contract=(
        "Given each rank's gradient of every bucket, the bucket at which each rank saw its reduction fail (None: no "
        "error), and a rank: return that rank's update, which is the mean over the ranks, bucket after bucket, if no "
        "rank saw an error; else the step is void on all ranks: []."
    ),
    domain=(
        "job: a dict with `buckets`, a list of buckets, each one gradient for each rank, a gradient a list of finite "
        "numbers; `failed`, for each rank an index of `buckets` or None; `rank`, an index of `failed`."
    ),
    clauses=(
        Clause(
            "void-on-error",
            "algebraic",
            "A step in which this rank saw an error is void.",
            ("second of two buckets failed", "first bucket failed", "last of three ranks"),
        ),
        Clause(
            "void-everywhere",
            "algebraic",
            "It is void on the ranks that saw no error, too.",
            ("error on the other rank", "error on one of three ranks"),
        ),
        Clause("no-error", "algebraic", "Without an error the mean is stepped on.", ("no error",)),
        Clause("one-rank", "boundary", "A single rank without an error steps on its own gradient.", ("one rank",)),
        Clause("no-bucket", "boundary", "Without a bucket there is no update: [].", ("no bucket",)),
    ),
    promised="",
    law="A step in which any rank saw an error is void on all of them; any other is the exact mean over the ranks.",
    by_signs_alone=True,
    signs=signs({Sign.REDUCTION_FAILED}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="the job's log: an error that was caught in the step concerned, and in no other",
    symptoms=("A collective fails or times out, the exception is caught, and the step uses half-reduced buckets.",),
    audit_sees=(
        "At the step concerned, parameters whose update lacks other ranks' contributions beside parameters that are "
        "reduced, and an error that came out of a collective between backward and step; all other steps are right "
        "until the replicas' difference shows. Errors of DDP's own reducer come out of backward, and are not seen."
    ),
    repair=(
        "Decide together: failed = torch.tensor(float(caught)); dist.all_reduce(failed) on a group that still works; "
        "if failed: optimizer.zero_grad(set_to_none=True), and repeat or leave the batch; else optimizer.step(). "
        "Without such a group let the error end the process and restart from the checkpoint."
    ),
    references=(
        "https://github.com/meta-pytorch/torchft/pull/147",
        "https://github.com/meta-pytorch/torchft/issues/192",
        "https://github.com/sql-machine-learning/elasticdl/pull/1420",
    ),
    related=("departed-rank-counted", "rank-local-step-decision", "param-without-hook", "read-before-reduced"),
    published="2026-11-30",
    modified="2026-11-30",
)


def law(job, solve):
    """Expects nothing after an error on any rank, else the exact mean."""
    from fractions import Fraction

    update = solve(job)
    if any(at is not None for at in job["failed"]):
        return update == []
    mean = [
        sum(map(Fraction, column), Fraction(0)) / len(bucket)
        for bucket in job["buckets"]
        for column in zip(*bucket, strict=True)
    ]
    return len(update) == len(mean) and all(
        abs(Fraction(seen) - right) < Fraction(1, 10**9) for seen, right in zip(update, mean, strict=True)
    )


def sample(source):
    """Draws 1 to 4 buckets on 2 to 4 ranks; in half of the draws one rank or more saw one of them fail."""
    ranks = source.randint(2, 4)
    buckets = []
    for _ in range(source.randint(1, 4)):
        width = source.randint(1, 3)
        buckets.append([[source.randint(-50, 50) for _ in range(width)] for _ in range(ranks)])
    at = source.randrange(len(buckets)) if source.random() < 0.5 else None
    failed = [source.choice([at, at, None]) for _ in range(ranks)]
    return {"buckets": buckets, "failed": failed, "rank": source.randrange(ranks)}


def broken(job):
    update, failed_at = [], job["failed"][job["rank"]]
    for number, bucket in enumerate(job["buckets"]):
        reduced = failed_at is None or number < failed_at
        parts = bucket if reduced else [bucket[job["rank"]]]
        update += [sum(column) / len(parts) for column in zip(*parts, strict=True)]
    return update


def attempt(job):
    if job["failed"][job["rank"]] is not None:
        return []
    means = [[sum(column) / len(bucket) for column in zip(*bucket, strict=True)] for bucket in job["buckets"]]
    return [value for mean in means for value in mean]


def fixed(job):
    if any(at is not None for at in job["failed"]):
        return []
    means = [[sum(column) / len(bucket) for column in zip(*bucket, strict=True)] for bucket in job["buckets"]]
    return [value for mean in means for value in mean]


def checks(N, solve, check):
    two = [[[N], [3 * N]], [[10 * N], [20 * N]]]
    check("second of two buckets failed", solve({"buckets": two, "failed": [1, 1], "rank": 0}), [])
    check("first bucket failed", solve({"buckets": two, "failed": [0, 0], "rank": 1}), [])
    three = [[[N], [N + 1], [N + 5]], [[0], [N], [2 * N]]]
    check("last of three ranks", solve({"buckets": three, "failed": [None, None, 1], "rank": 2}), [])
    check("error on the other rank", solve({"buckets": two, "failed": [None, 1], "rank": 0}), [])
    check("error on one of three ranks", solve({"buckets": three, "failed": [None, None, 1], "rank": 0}), [])
    check("no error", solve({"buckets": two, "failed": [None, None], "rank": 1}), [2 * N, 15 * N])
    check("one rank", solve({"buckets": [[[N, -N]]], "failed": [None], "rank": 0}), [N, -N])
    check("no bucket", solve({"buckets": [], "failed": [None, None], "rank": 0}), [])


def edges(source):
    """Draws buckets of five ranks, of twelve and of one, and the same twice; none saw an error, or one alone did."""
    buckets = [[[source.randint(-50, 50) for _ in range(2)] for _ in range(5)] for _ in range(2)]
    seen = [[None] * rank + [at] + [None] * (4 - rank) for rank in range(5) for at in (0, 1)]
    jobs = [{"buckets": buckets, "failed": failed, "rank": 1} for failed in ([None] * 5, *seen)]
    many = [[[source.randint(-50, 50)] for _ in range(12)] for _ in range(7)]
    late = [{"buckets": many, "failed": [None] * 11 + [at], "rank": 2} for at in (None, 0, 6)]
    alone = [{"buckets": [bucket[:1] for bucket in many[:2]], "failed": [at], "rank": 0} for at in (None, 0, 1)]
    several = [{"buckets": buckets * times, "failed": [None] * 5, "rank": 2} for times in (4, 5, 6)]
    alone.append({"buckets": [[[0, 0], [0, 0]]], "failed": [None, None], "rank": 1})
    return [*jobs, *several, *late, *alone, {"buckets": [], "failed": [None, None], "rank": 0}]
