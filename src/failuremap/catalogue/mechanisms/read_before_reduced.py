"""The gradient is read before its reduction has finished: what has arrived by then is in it."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=52,
    slug="read-before-reduced",
    title="The gradient is read before its reduction has finished",
    group="synchronisation",
    abstract="The job reads a gradient while it is still being reduced, and steps on what has arrived so far.",
    root_cause="all_reduce(..., async_op=True) returns at once, and nothing waits for its handle before the read.",
    failure=(
        "Three ranks with the gradients 1, 2 and 6 should step on 3. The second rank, reading before any hop of the "
        "ring, has 2/3, and one hop later 1."
    ),
    failed_approach=(
        "Waiting for the last bucket's handle is enough where all reductions run in order on one stream. With several "
        "groups, or a pool of threads as in Gloo, an earlier bucket may still be under way when the last is done."
    ),
    relevance=(
        "The result depends on load and message size: small models and debug runs are right, the large run isn't, and "
        "two runs differ. Met as a division right behind an asynchronous all_reduce, a flag copied before its "
        "reduction, and as streams that didn't wait for one another."
    ),
    limitations=(
        "Progress is given as hops of a ring that bring one rank's gradient each; torn reads inside a message, and "
        "writes of the reading job into a buffer that is still being sent, are left out."
    ),
    contract=(
        "Given each rank's gradient of every bucket, how many hops of each bucket's ring have arrived, and a rank: "
        "return that rank's update, bucket after bucket, which is the mean over all ranks however far the hops are; "
        "no bucket gives []."
    ),
    domain=(
        "job: a dict with `buckets`, a list of dicts with `gradients`, one list of finite numbers for each rank, all "
        "of one length, and `hops`, 0 to the number of ranks less 1; `rank`, an index of each `gradients`."
    ),
    clauses=(
        Clause(
            "waits",
            "algebraic",
            "The mean holds all ranks, whatever had arrived when it was asked for.",
            ("no hop yet", "one hop of two", "second rank, one hop of two"),
        ),
        Clause("each-bucket", "algebraic", "Every bucket is waited for, not the last alone.", ("first bucket late",)),
        Clause("all-arrived", "boundary", "What has arrived in full is left as it is.", ("all arrived",)),
        Clause("one-rank", "boundary", "A single rank has nothing to wait for.", ("one rank",)),
        Clause("no-bucket", "boundary", "Without a bucket there is no update: [].", ("no bucket",)),
    ),
    promised="mean",
    by_signs_alone=True,
    signs=signs({Sign.REDUCTION_UNAWAITED}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="a second run, or one with every handle waited for at once: the update changes",
    symptoms=("The optimizer reads gradients while an async all_reduce is still running: no wait() on the handle.",),
    audit_sees=(
        "Updates that lack contributions of other ranks, and a reduction of theirs whose handle nobody had waited for "
        "when the optimizer stepped. Where all had arrived by chance, the job is right at these steps, and a note says "
        "what was not waited for. Handles of collectives that aren't called from Python are not seen."
    ),
    repair=(
        "Keep every handle and wait before the first read: works = [dist.all_reduce(p.grad, async_op=True) for p in "
        "model.parameters()]; for work in works: work.wait(); then divide, clip and step. On GPUs wait() orders the "
        "current stream only; another stream that reads the buffer must wait for it, too."
    ),
    references=(
        "https://github.com/OpenNMT/OpenNMT-py/issues/2295",
        "https://github.com/pytorch/pytorch/issues/37790",
        "https://github.com/pytorch/pytorch/pull/115710",
        "https://github.com/facebookresearch/fairscale/issues/780",
        "https://github.com/tensorflow/tensorflow/issues/41539",
    ),
    related=("result-lost", "half-reduced-after-failure", "never-synchronised", "previous-gradient-applied"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Joins each rank's buckets to one contribution."""
    ranks = range(len(job["buckets"][0]["gradients"]))
    gradients = [[value for bucket in job["buckets"] for value in bucket["gradients"][rank]] for rank in ranks]
    return gradients, Layout.from_counts([1] * len(gradients))


def sample(source):
    """Draws 1 to 3 buckets of 1 to 5 ranks, each with some of its hops done."""
    ranks = source.randint(1, 5)
    buckets = []
    for _ in range(source.randint(1, 3)):
        width = source.randint(1, 3)
        gradients = [[source.randint(-50, 50) for _ in range(width)] for _ in range(ranks)]
        buckets.append({"gradients": gradients, "hops": source.randrange(ranks)})
    return {"buckets": buckets, "rank": source.randrange(ranks)}


def broken(job):
    update = []
    for bucket in job["buckets"]:
        gradients = bucket["gradients"]
        arrived = [gradients[(job["rank"] - hop) % len(gradients)] for hop in range(bucket["hops"] + 1)]
        update += [sum(column) / len(gradients) for column in zip(*arrived, strict=True)]
    return update


def attempt(job):
    update = []
    for bucket in job["buckets"]:
        gradients = bucket["gradients"]
        hops = len(gradients) - 1 if bucket is job["buckets"][-1] else bucket["hops"]
        arrived = [gradients[(job["rank"] - hop) % len(gradients)] for hop in range(hops + 1)]
        update += [sum(column) / len(gradients) for column in zip(*arrived, strict=True)]
    return update


def fixed(job):
    update = []
    for bucket in job["buckets"]:
        gradients = bucket["gradients"]
        hops = len(gradients) - 1  # work.wait()
        arrived = [gradients[(job["rank"] - hop) % len(gradients)] for hop in range(hops + 1)]
        update += [sum(column) / len(gradients) for column in zip(*arrived, strict=True)]
    return update


def checks(N, solve, check):
    two, three = [[N], [3 * N]], [[N, 0], [N + 1, 3], [N + 5, 6]]
    check("no hop yet", solve({"buckets": [{"gradients": two, "hops": 0}], "rank": 0}), [2 * N])
    check("one hop of two", solve({"buckets": [{"gradients": three, "hops": 1}], "rank": 0}), [N + 2, 3])
    check("second rank, one hop of two", solve({"buckets": [{"gradients": three, "hops": 1}], "rank": 1}), [N + 2, 3])
    late = [{"gradients": two, "hops": 0}, {"gradients": [[4], [N]], "hops": 1}]
    check("first bucket late", solve({"buckets": late, "rank": 1}), [2 * N, (N + 4) / 2])
    check("all arrived", solve({"buckets": [{"gradients": three, "hops": 2}], "rank": 2}), [N + 2, 3])
    check("one rank", solve({"buckets": [{"gradients": [[N, -N]], "hops": 0}], "rank": 0}), [N, -N])
    check("no bucket", solve({"buckets": [], "rank": 0}), [])
