"""All ranks step on the first rank's gradient: 1 on rank 0, 0 on the others."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=69,
    slug="first-rank-broadcast",
    title="All ranks step on the first rank's gradient",
    group="replica-agreement",
    abstract="The replicas agree, and the work of all ranks but one is thrown away.",
    root_cause="The gradients, or the stepped parameters, are broadcast from rank 0 instead of being reduced.",
    failure=(
        "Means 1 and 5 over 1 and 3 units give both ranks an update of 1 where 4 is right. On 8 ranks seven of eight "
        "batches are computed for nothing."
    ),
    failed_approach=(
        "Making each rank the source of its own share of the elements, as a sharded optimizer places them, uses all "
        "ranks, but each element still comes from one of them: no element is a mean."
    ),
    relevance=(
        "A comparison of the replicas finds them equal, which is what the broadcast was written for; the loss falls "
        "at the batch size of one rank, however many are added, and only the missing gain from more ranks tells."
    ),
    limitations=(
        "One reduction of one tensor; a broadcast of the stepped parameters moves the model alike, and leaves other "
        "optimizer states on the other ranks."
    ),
    contract=(
        "Given one [gradient_mean, count] row for each rank, return what all ranks step on: the elementwise mean over "
        "all units; zero-count rows contribute nothing and total zero returns []."
    ),
    domain=(
        "rows: a list of (gradient, count) pairs, one a rank in the order of the ranks; gradient a list of finite "
        "numbers, all of one length; count an integer of 0 or more."
    ),
    clauses=(
        Clause(
            "every-rank",
            "algebraic",
            "Each rank weighs its count over the total count, in every element.",
            ("two ranks", "three ranks", "unequal counts"),
        ),
        Clause("same-gradients", "algebraic", "Equal gradients are returned as they are.", ("equal gradients",)),
        Clause("one-rank", "boundary", "A single rank steps on its own gradient.", ("single rank",)),
        Clause(
            "zero-count",
            "boundary",
            "A rank without units contributes nothing, also where it is the first.",
            ("first rank without units", "last rank without units"),
        ),
        Clause("zero-total", "boundary", "Without any unit there is no update: [].", ("no rank", "no unit")),
    ),
    followed=("first_rank",),
    by_signs_alone=True,
    signs=signs({Sign.FIRST_RANK_ONLY}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="the ranks that are left: the first one alone here",
    symptoms=("broadcast(grad, 0) stands where an all_reduce should.",),
    audit_sees=(
        "The same update on all ranks, with coefficient 1 on rank 0 and 0 on the others. With two ranks a mean that "
        "lost rank 1 and was divided by those that came leaves the same coefficients."
    ),
    repair=(
        "Reduce instead of broadcasting, before optimizer.step(): for p in model.parameters(): "
        "dist.all_reduce(p.grad); p.grad /= dist.get_world_size(). DistributedDataParallel(model) does the same. No "
        "division where the loss is over the global count."
    ),
    references=(),
    related=("rank-dropped", "never-synchronised", "replicas-start-different", "buffers-first-only"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(rows):
    """Splits the rows into mean gradients and the layout of their counts."""
    return [gradient for gradient, _ in rows], Layout.from_counts([count for _, count in rows])


def sample(source):
    """Draws rows of one width, with a count of 1 or more on each rank."""
    width = source.randint(1, 4)
    vectors = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 6))]
    return [(vector, source.randint(1, 9)) for vector in vectors]


def broken(rows):
    return list(rows[0][0]) if rows else []


def attempt(rows):
    width = len(rows[0][0]) if rows else 0
    return [rows[place % len(rows)][0][place] for place in range(width)]


def fixed(rows):
    rows = [(gradient, count) for gradient, count in rows if count]
    units = sum(count for _, count in rows)
    columns = zip(*[[value * count for value in gradient] for gradient, count in rows], strict=True)
    return [sum(column) / units for column in columns]


def checks(N, solve, check):
    check("two ranks", solve([([N, 2 * N], 2), ([3 * N, 4 * N], 2)]), [2 * N, 3 * N])
    check("three ranks", solve([([3 * N], 1), ([6 * N], 1), ([0], 1)]), [3 * N])
    check("unequal counts", solve([([N, N], 1), ([5 * N, 9 * N], 3)]), [4 * N, 7 * N])
    check("equal gradients", solve([([N, -N], 1), ([N, -N], 2)]), [N, -N])
    check("single rank", solve([([N, 2 * N], N)]), [N, 2 * N])
    check("first rank without units", solve([([9 * N], 0), ([2 * N], 2)]), [2 * N])
    check("last rank without units", solve([([2 * N], 2), ([9 * N], 0)]), [2 * N])
    check("no rank", solve([]), [])
    check("no unit", solve([([N], 0), ([3 * N], 0)]), [])
