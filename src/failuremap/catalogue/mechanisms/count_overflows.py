"""A narrow integer holds the sum of the counts, and wraps around."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from failuremap.catalogue.mechanism import Clause, Mechanism
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=6,
    slug="count-overflows",
    title="The sum of the counts overflows its type",
    group="counts-across-ranks",
    abstract="Each count fits into its type, their sum does not, and the weighted mean is divided by what is left.",
    root_cause=(
        "A sum keeps the type of what is added: int8 wraps at 128, int32 at 2^31, and a bfloat16 counts by ones up to "
        "256 only."
    ),
    failure=(
        "Two ranks with 100 examples each: in int8 their sum is -56, and the update is -3.6 times the mean, uphill. "
        "Where the sum is 256 it reads 0, and the guard against an empty batch skips the step."
    ),
    failed_approach=(
        "A float that has room for larger numbers cannot wrap, but rounds: with 8 significant bits 254 + 127 is 380, "
        "and 256 + 1 stays 256, however often 1 is added."
    ),
    relevance=(
        "Counts take the type of what they are computed from: lengths in a byte, a mask cast to the type of the loss, "
        "an accumulator made like the gradient. Tests with few examples never reach the limit."
    ),
    limitations="The type of one counter is modelled; that of the products gradient * count is left out.",
    contract=(
        "Given [gradient_mean, count] rows, return the mean over all units, however many there are; rows of count 0 "
        "contribute nothing, and a total of zero returns []."
    ),
    domain=(
        "rows: a list of (gradient_mean, count) pairs; gradient_mean a list of finite numbers, all of one length; "
        "count an integer from 0 to 127, as a signed byte holds it."
    ),
    clauses=(
        Clause(
            "beyond-the-type",
            "numeric",
            "A total that the counts' type can't hold divides like any other.",
            ("two counts beyond a byte", "a total of 256", "three full bytes"),
        ),
        Clause(
            "many-ones",
            "numeric",
            "A count of 1 counts beside any total.",
            ("three hundred single units",),
        ),
        Clause(
            "mean",
            "algebraic",
            "Each row weighs its count over the total.",
            ("unequal counts", "the largest total that fits"),
        ),
        Clause("zero-count", "boundary", "A row of count 0 contributes nothing.", ("a row without units",)),
        Clause("no-units", "boundary", "Without any unit there is no update: [].", ("no units", "no rows")),
    ),
    separated_by="batches so small that the sum of their counts fits into the type",
    symptoms=("The token or sample count overflows int32, or loses units in fp16.",),
    audit_sees=(
        "Units that weigh alike, with a factor on all of them that jumps from step to step and may be negative."
    ),
    audit_blind="A script may put any factor on its loss: this one is not compared with what is left of the counts.",
    repair=(
        "Count in int64, before and after the sum: count = lengths.sum() (of integers and masks torch makes an int64 "
        "by itself; dtype= takes that away), or torch.tensor(count, dtype=torch.int64); then dist.all_reduce(count)."
    ),
    references=(),
    related=("zero-total", "reduced-precision-sum", "denominator-window-mismatch"),
    published="2026-11-30",
    modified="2026-11-30",
)


def broken(rows):
    total = 0
    for _, count in rows:
        # int8
        total = (total + count + 128) % 256 - 128
    if not total:
        return []
    width = len(rows[0][0])
    return [sum(gradient[j] * count for gradient, count in rows) / total for j in range(width)]


def attempt(rows):
    import math

    def to_bfloat16(value):
        fraction, exponent = math.frexp(value)
        return math.ldexp(round(fraction * 256), exponent - 8)

    total = 0.0
    for _, count in rows:
        total = to_bfloat16(total + count)
    if not total:
        return []
    width = len(rows[0][0])
    return [sum(gradient[j] * count for gradient, count in rows) / total for j in range(width)]


def fixed(rows):
    total = sum(count for _, count in rows)
    if not total:
        return []
    width = len(rows[0][0])
    return [sum(gradient[j] * count for gradient, count in rows) / total for j in range(width)]


def checks(N, solve, check):
    check("unequal counts", solve([([N, 2 * N], 1), ([5 * N, 6 * N], 3)]), [4 * N, 5 * N])
    check("the largest total that fits", solve([([N], 64), ([N], 63)]), [N])
    check("two counts beyond a byte", solve([([N], 100), ([3 * N], 100)]), [2 * N])
    check("a total of 256", solve([([N], 127), ([N], 127), ([N + 128], 2)]), [N + 1])
    check("three full bytes", solve([([N, -N], 127)] * 3), [N, -N])
    check("three hundred single units", solve([([N], 1)] * 300), [N])
    check("a row without units", solve([([9 * N], 0), ([2 * N], 2)]), [2 * N])
    check("no units", solve([([N], 0)] * 2), [])
    check("no rows", solve([]), [])


def sample(source):
    """Draws rows of one width, with counts that a signed byte holds."""
    width, most = source.randint(1, 3), source.choice([9, 40, 127])
    vectors = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 8))]
    return [(vector, source.randrange(most + 1)) for vector in vectors]


def contributions(rows):
    """Splits the rows into mean gradients and the layout of their counts."""
    return [gradient for gradient, _ in rows], Layout.from_counts([count for _, count in rows])


def edges(source):
    """Draws so many rows that sixteen bits don't hold their total, with a sign and without."""
    return [[([source.randint(-50, 50)], 127), *[([1], 127)] * 259], [([7], 127)] * 520]
