"""A rank's contribution never arrives: 0 on that rank."""
# mypy: disable-error-code="no-untyped-def"

from fractions import Fraction

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=70,
    slug="rank-dropped",
    title="A rank's contribution never arrives",
    group="replica-agreement",
    abstract="One rank computes gradients that no update holds: its data are not learned from.",
    root_cause="The rank sends zeros or an old buffer, is not in the process group, or its branch skips the reduction.",
    failure=(
        "Three ranks in nodes of two, with means 2, 4 and 12 over 1 unit each: two make a full node, and the update is "
        "3 where 6 is right. The third rank's shard of the data never teaches the model anything."
    ),
    failed_approach=(
        "Counting the last node too, and averaging the nodes' means, lets every rank in, but the one that is alone on "
        "its node weighs as much as two: 7.5 here."
    ),
    relevance=(
        "All ranks step on the same update and stay equal, and the loss of the rank that is left out is computed and "
        "printed like the others'. With a fixed sharding of the data, a part of the data set is never seen at all."
    ),
    limitations="One cause of many, sums by node and the ragged last node; what a rank sends instead is not modelled.",
    contract=(
        "Given one [gradient_sum, count] row for each rank and the number of ranks per node, return the elementwise "
        "mean over all units of all ranks; without any unit return []. How ranks lie on nodes changes nothing."
    ),
    domain=(
        "job: {'rows': a list of (gradient, count) pairs, one a rank in the order of the ranks; 'per_node': an integer "
        "of 1 or more}; gradient a list of finite numbers, all of one length, summed over the units; count an integer "
        "of 0 or more. A count of 0 comes with zeros."
    ),
    clauses=(
        Clause(
            "every-rank",
            "algebraic",
            "Each rank's sum is added, in a node that is full or not.",
            ("one rank on the last node", "fewer ranks than a node holds", "two of three on the last node"),
        ),
        Clause(
            "any-placement",
            "algebraic",
            "Where the nodes are full it is the mean over all units as well.",
            ("full nodes", "one rank a node"),
        ),
        Clause("single", "boundary", "A single rank is its mean.", ("single rank",)),
        Clause(
            "idle-rank",
            "boundary",
            "A rank without units leaves the others' result as it is.",
            ("last rank without units",),
        ),
        Clause("no-unit", "boundary", "Without any unit there is no update: [].", ("no rank", "no unit")),
    ),
    by_signs_alone=True,
    signs=signs({Sign.RANK_MISSING}),
    never=frozenset({Sign.OWN_RANK_ONLY, Sign.SINGLE_RANK}),
    separated_by="the ranks that are left: all others here",
    symptoms=("One rank's gradient never arrives in the average.",),
    audit_sees="The same update on all ranks, with coefficient 0 on every contribution of one rank.",
    repair=(
        "Reduce p.grad itself, on every rank, over the default group, before optimizer.step(): for p in "
        "model.parameters(): dist.all_reduce(p.grad); p.grad /= dist.get_world_size(). No division where the loss "
        "is over the global count."
    ),
    references=(),
    related=("first-rank-broadcast", "departed-rank-counted", "result-lost", "replica-means-ignore-counts"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Divides each row by its count: the ranks' mean gradients."""
    means = [[Fraction(value) / max(count, 1) for value in gradient] for gradient, count in job["rows"]]
    return means, Layout.from_counts([count for _, count in job["rows"]])


def sample(source):
    """Draws rows of one width, with a count of 1 or more on each rank, and nodes of up to four."""
    width = source.randint(1, 4)
    vectors = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 7))]
    return {"rows": [(vector, source.randint(1, 9)) for vector in vectors], "per_node": source.randint(1, 4)}


def broken(job):
    rows, size = job["rows"], job["per_node"]
    arrived = [rows[node * size + place] for node in range(len(rows) // size) for place in range(size)]
    units = sum(count for _, count in arrived)
    columns = zip(*[gradient for gradient, _ in arrived], strict=True)
    return [sum(column) / units for column in columns] if units else []


def attempt(job):
    rows, size, means = job["rows"], job["per_node"], []
    for node in [rows[first : first + size] for first in range(0, len(rows), size)]:
        units = sum(count for _, count in node)
        columns = zip(*[gradient for gradient, _ in node], strict=True)
        means += [[sum(column) / units for column in columns]] if units else []
    return [sum(column) / len(means) for column in zip(*means, strict=True)]


def fixed(job):
    units = sum(count for _, count in job["rows"])
    columns = zip(*[gradient for gradient, _ in job["rows"]], strict=True)
    return [sum(column) / units for column in columns] if units else []


def checks(N, solve, check):
    two = [([2 * N], 1), ([4 * N], 1)]
    check("one rank on the last node", solve({"rows": [*two, ([12 * N], 1)], "per_node": 2}), [6 * N])
    check("fewer ranks than a node holds", solve({"rows": two, "per_node": 2 + N}), [3 * N])
    check("two of three on the last node", solve({"rows": [*two, *two, ([N], 1)], "per_node": 3}), [13 * N / 5])
    check("full nodes", solve({"rows": [*two, *two], "per_node": 2}), [3 * N])
    check("one rank a node", solve({"rows": two, "per_node": 1}), [3 * N])
    check("single rank", solve({"rows": [([2 * N, 4 * N], 2)], "per_node": 1}), [N, 2 * N])
    check("last rank without units", solve({"rows": [*two, ([0], 0)], "per_node": 2}), [3 * N])
    check("no rank", solve({"rows": [], "per_node": N}), [])
    check("no unit", solve({"rows": [([0], 0)], "per_node": N}), [])


def edges(source):
    """Draws nodes of eight and sixteen ranks, full ones and others, and one that holds more than all ranks."""
    rows = [([source.randint(-50, 50) for _ in range(2)], source.randint(1, 9)) for _ in range(21)]
    shapes = (21, 8), (16, 8), (17, 8), (17, 16), (9, 5), (11, 6), (3, 16), (5, 100), (20, 7), (1, 8)
    return [{"rows": rows[:rank_count], "per_node": per_node} for rank_count, per_node in shapes]
