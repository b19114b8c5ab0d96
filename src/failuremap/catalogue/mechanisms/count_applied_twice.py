"""A gradient that is a sum already is weighted by its count again: n^2/N where n/N is right."""
# mypy: disable-error-code="no-untyped-def"

from fractions import Fraction

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=7,
    slug="count-applied-twice",
    title="The count is applied twice",
    group="counts-across-ranks",
    abstract="The loss is a sum, which holds its count already, and the reduction weighs each rank by n/N as well.",
    root_cause=(
        "The weight n/N turns means into the mean over all units; a sum is n times its mean, so the rank's weight goes "
        "as n^2."
    ),
    failure=(
        "Of 4 units, one rank has 1 and the other 3. Their summed gradients weigh 1/4 and 3/4: a unit of the second "
        "rank weighs three times one of the first, and the update is 2.5 times the mean where all gradients are alike."
    ),
    failed_approach=(
        "Dividing the result by the mean count repairs the size of the update: with equal counts it is right. The "
        "second n of each weight stays, so long batches are still over-represented."
    ),
    relevance=(
        "A weighted all-reduce and a loss are often written by different people, and reduction='sum' against 'mean' "
        "is one word. Under Adam, which takes no notice of a constant factor, only the bias to long batches is left."
    ),
    limitations="One micro-batch on each rank; in a window the same happens between the micro-batches.",
    contract=(
        "Given [gradient_sum, count] rows, return the mean over all units; rows of count 0 contribute nothing, and a "
        "total of zero returns []."
    ),
    domain=(
        "rows: a list of (gradient_sum, count) pairs; gradient_sum a list of finite numbers, all of one length: the "
        "sum over the units of the row; count an integer of 0 or more."
    ),
    clauses=(
        Clause(
            "units-alike",
            "algebraic",
            "A unit weighs 1/N, on whichever row it stands.",
            ("unequal counts", "one unit beside many", "counts vary"),
        ),
        Clause(
            "length",
            "algebraic",
            "Rows whose units all have one gradient give that gradient.",
            ("equal counts", "a single row"),
        ),
        Clause("single-units", "boundary", "With one unit on each row it is the plain mean.", ("one unit each",)),
        Clause("zero-count", "boundary", "A row without units changes nothing.", ("a row without units",)),
        Clause("no-units", "boundary", "Without any unit there is no update: [].", ("no units", "no rows")),
    ),
    followed=(
        "counts_twice",
        "counts_twice_over_ranks",
        "rank_counts_twice",
        "rank_counts_twice_over_ranks",
        "counts_twice_over_mean_count",
    ),
    attempt_follows="counts_twice_over_mean_count",
    signs=signs({Sign.UNEQUAL_COUNTS_ACROSS_RANKS}, {Sign.UNEQUAL_COUNTS_ACROSS_MICRO_BATCHES}),
    separated_by="whether the loss of each rank is a sum or a mean over its units",
    symptoms=("Gradients of summed losses are multiplied by the token count again: weighted twice.",),
    audit_sees=(
        "Losses that weigh their units alike, and coefficients in proportion to the ranks' counts: the heaviest unit "
        "outweighs the lightest as the largest count does the smallest, the wrong way round for a mean."
    ),
    repair=(
        "Apply the count once. Either the loss is a mean and the reduction weighs it: F.cross_entropy(..., "
        "reduction='mean'), p.grad.mul_(n / total); or the loss is a sum, and the reduction divides by the total "
        "alone: F.cross_entropy(..., reduction='sum'), p.grad.div_(total)."
    ),
    references=(),
    related=("replica-means-ignore-counts", "weight-kind-mismatch", "late-division"),
    published="2026-11-30",
    modified="2026-11-30",
)


def broken(rows):
    total = sum(count for _, count in rows)
    if not total:
        return []
    width = len(rows[0][0])
    return [sum(gradient[j] * count for gradient, count in rows) / total for j in range(width)]


def attempt(rows):
    total = sum(count for _, count in rows)
    if not total:
        return []
    width = len(rows[0][0])
    return [sum(gradient[j] * count for gradient, count in rows) * len(rows) / total**2 for j in range(width)]


def fixed(rows):
    total = sum(count for _, count in rows)
    if not total:
        return []
    return [sum(column) / total for column in zip(*(gradient for gradient, _ in rows), strict=True)]


def checks(N, solve, check):
    check("unequal counts", solve([([N, 2 * N], 1), ([3 * N, 0], 3)]), [N, N / 2])
    check("one unit beside many", solve([([8 * N], 1), ([0], 7)]), [N])
    check("counts vary", solve([([N], N), ([5 * N], N + 1)]), [6 * N / (2 * N + 1)])
    check("equal counts", solve([([2 * N, 6 * N], 2), ([2 * N, 2 * N], 2)]), [N, 2 * N])
    check("a single row", solve([([4 * N, -4 * N], 4)]), [N, -N])
    check("one unit each", solve([([N], 1), ([3 * N], 1)]), [2 * N])
    check("a row without units", solve([([0], 0), ([4 * N], 4)]), [N])
    check("no units", solve([([0], 0)] * N), [])
    check("no rows", solve([]), [])


def sample(source):
    """Draws rows of one width, with a count of 1 or more on each."""
    width = source.randint(1, 4)
    vectors = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 6))]
    return [(vector, source.randint(1, 9)) for vector in vectors]


def contributions(rows):
    """Divides each row's sum into its mean gradient."""
    means = [[Fraction(value) / max(count, 1) for value in gradient] for gradient, count in rows]
    return means, Layout.from_counts([count for _, count in rows])
