"""A row of count 0 is multiplied by 0 instead of left out: 0 times nan is nan."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import math

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=4,
    slug="zero-count-times-nan",
    title="A contribution of count zero is multiplied by zero instead of left out",
    group="counts-across-ranks",
    abstract="The weight of a rank without units is 0, its gradient is nan, and their product poisons the sum.",
    root_cause="In floating point 0 * nan and 0 * inf are nan: a weight of zero removes finite values only.",
    failure=(
        "Rank 0 has the mean 2 over 3 units; rank 1 has none, and its mean 0/0 is nan. (3 * 2 + 0 * nan) / 3 is nan, "
        "where 2 is right, and after the all-reduce it is nan on rank 0 as well."
    ),
    failed_approach=(
        "Replacing nan by 0 before the step lets training go on, but behind the sum: each element that one rank "
        "spoiled is then 0 for all of them. It also hides a nan of a rank that does have units."
    ),
    relevance=(
        "Weighted averages are the usual repair for unequal counts, and an empty or excluded batch is where they "
        "meet a nan. Met in RestrictedBoltzmannMachines.jl, where minibatches of weight zero poisoned the training."
    ),
    limitations=(
        "F.cross_entropy(reduction='mean') over ignored targets only has a nan loss and a gradient of exactly 0 on "
        "CPU; the rows here are those of a mean that is written out."
    ),
    contract=(
        "Given [gradient_mean, count] rows, return the mean over all units; a row of count 0 contributes nothing, "
        "whatever its gradient holds, and a total of zero gives []."
    ),
    domain=(
        "rows: a list of (gradient_mean, count) pairs; count an integer of 0 or more; gradient_mean a list of "
        "numbers, all of one length, finite where the count is not 0 unless the job has diverged."
    ),
    clauses=(
        Clause(
            "left-out",
            "boundary",
            "A row of count 0 changes nothing, even if it holds nan or inf.",
            ("nan in an empty row", "infinity in an empty row", "nan in one element of an empty row"),
        ),
        Clause("no-units", "boundary", "Without any unit there is no update: [].", ("only empty rows", "no rows")),
        Clause(
            "mean",
            "algebraic",
            "Each other row weighs its count over the total count.",
            ("unequal counts", "a finite empty row"),
        ),
        Clause(
            "visible",
            "numeric",
            "A nan of a row that has units stays in the result.",
            ("nan in a row with units",),
        ),
    ),
    law="The result is finite where the rows with units are, and taking the rows without units away changes nothing.",
    by_signs_alone=True,
    signs=signs({Sign.NONFINITE, Sign.EMPTY_CONTRIBUTION, Sign.WEIGHED_BY_COUNTS}),
    separated_by="the weights at steps where each rank has units: here its share of them, in a plain mean 1/R for all",
    symptoms=("An empty rank's nan gradient times its weight of 0 is nan.",),
    audit_sees=(
        "A nan at a step where a rank counts no unit and others do, in a job whose coefficients go by the counts at "
        "other steps. Where they don't, or no rank counts a unit, the audit names zero-total. Of a rank that counts "
        "units and sets its weight to 0 for another reason, the trace says nothing."
    ),
    repair=(
        "Leave the gradient out instead of multiplying it: for p in model.parameters(): p.grad.zero_() if count == 0 "
        "else p.grad.mul_(count / total), before the all-reduce. Better still, let no nan arise: divide summed "
        "losses, which are 0 over nothing, by the count of all ranks."
    ),
    references=("https://github.com/cossio/RestrictedBoltzmannMachines.jl/issues/143",),
    related=("zero-total", "replica-means-ignore-counts", "divisor-counts-idle-parts"),
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
    import math

    total = sum(count for _, count in rows)
    if not total:
        return []
    width = len(rows[0][0])
    update = [sum(gradient[j] * count for gradient, count in rows) / total for j in range(width)]
    return [0 if math.isnan(value) else value for value in update]


def fixed(rows):
    rows = [(gradient, count) for gradient, count in rows if count]
    if not rows:
        return []
    total = sum(count for _, count in rows)
    width = len(rows[0][0])
    return [sum(gradient[j] * count for gradient, count in rows) / total for j in range(width)]


def checks(N, solve, check):
    import math

    nan, inf = float("nan"), float("inf")

    def seen(update):
        return ["nan" if math.isnan(value) else value for value in update]

    check("unequal counts", seen(solve([([N, 2 * N], 1), ([5 * N, 6 * N], 3)])), [4 * N, 5 * N])
    check("a finite empty row", seen(solve([([9 * N], 0), ([2 * N], 2)])), [2 * N])
    check("nan in an empty row", seen(solve([([nan, nan], 0), ([N, -N], 3)])), [N, -N])
    check("infinity in an empty row", seen(solve([([N], 1), ([inf], 0), ([3 * N], 1)])), [2 * N])
    check("nan in one element of an empty row", seen(solve([([2 * N, 2 * N], 2), ([1, nan], 0)])), [2 * N, 2 * N])
    check("only empty rows", seen(solve([([nan], 0)] * N)), [])
    check("no rows", seen(solve([])), [])
    check("nan in a row with units", seen(solve([([nan, N], 1), ([N, N], 1)])), ["nan", N])


def sample(source):
    """Draws rows of one width, one with units; the others may have none, and then hold nan or inf as well."""
    width = source.randint(1, 4)
    counts = [source.randint(1, 9), *(source.choice([0, 0, 2, 5]) for _ in range(source.randint(0, 4)))]
    spoilt = [float("nan"), float("inf"), float("-inf"), 7]
    return [
        ([source.randint(-50, 50) if count else source.choice(spoilt) for _ in range(width)], count) for count in counts
    ]


def contributions(rows):
    """Splits the rows into mean gradients and the layout of their counts."""
    return [gradient for gradient, _ in rows], Layout.from_counts([count for _, count in rows])


def law(rows, solve):
    """Takes the rows without units away: the result is finite, and the same."""
    update = solve(rows)
    return all(map(math.isfinite, update)) and update == solve([row for row in rows if row[1]])


def edges(source):
    """Draws a nan in rows with units, also beside one in a row without."""
    nan, inf = float("nan"), float("inf")
    whole, other = ([source.randint(-50, 50) for _ in range(3)] for _ in range(2))
    return [
        [(whole, 2), ([nan, *other[1:]], 3)],
        [([inf, nan, -inf], 0), (whole, 4), ([*other[:2], nan], 1)],
        [([nan] * 3, 5)],
        [([nan] * 3, 0), (whole, 1)],
        [([inf] * 3, 0), (whole, 10**12), (other, 1)],
    ]
