"""The divisor still counts ranks that left: 1/R_0 where 1/R is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=5,
    slug="departed-rank-counted",
    title="The divisor still counts ranks that left",
    group="counts-across-ranks",
    abstract="Ranks that ran out of data, or failed, send zeros or nothing, and stay in the number of ranks.",
    root_cause="The world size was read once, at the start or when the graph was built, and membership changed since.",
    failure=(
        "Four ranks start and three have left. The gradient of the last one is divided by 4: its steps are a quarter "
        "as long as those it takes alone."
    ),
    failed_approach=(
        "Counting the ranks whose gradient is not zero takes a rank for gone whose batch happens to give no gradient, "
        "as one of masked targets does: its share goes to the others."
    ),
    relevance=(
        "Elastic jobs and uneven data meet it at the end of each epoch. Horovod's elastic mode had the size at graph "
        "build time in the average; DDP's Join divides by the initial size unless told otherwise, and documents it."
    ),
    limitations=(
        "Every rank that is there has the same count. Dividing by the initial size is right where a sample is to "
        "weigh the same at all steps of an epoch; then the promise is a sum, not the mean of each step."
    ),
    contract=(
        "Given [gradient, is_there] rows, one for each rank that started, return the mean over the ranks that are "
        "there; where none is, there is no update: []."
    ),
    domain=(
        "rows: a list of (gradient, is_there) pairs; gradient a list of finite numbers, all of one length; a rank "
        "that left sends zeros."
    ),
    clauses=(
        Clause(
            "divides-by-present",
            "algebraic",
            "The divisor is the number of ranks that are there.",
            ("one of three has left", "one remains", "most have left"),
        ),
        Clause("all-there", "algebraic", "With all ranks there it is the plain mean.", ("all are there",)),
        Clause(
            "zero-is-a-gradient",
            "numeric",
            "A rank that is there counts, also with a gradient of zero.",
            ("a gradient of zero", "a gradient of zero and a rank that left"),
        ),
        Clause("nobody-there", "boundary", "Without any rank there is no update: [].", ("all have left", "no rank")),
    ),
    followed=("mean",),
    by_signs_alone=True,
    signs=signs({Sign.DEPARTED_RANK_COUNTED}),
    separated_by="a step at which all ranks that started are there",
    symptoms=("After a worker is lost or runs out of data, gradients are still divided by the initial world size.",),
    audit_sees=(
        "Steps that are right while all ranks are there, and last ones whose total weight is the share of the ranks "
        "that are left."
    ),
    repair=(
        "Read the number of ranks when the gradient is divided, from the group that reduced it: p.grad /= "
        "dist.get_world_size(group). With uneven data under DDP: Join([model], divide_by_initial_world_size=False)."
    ),
    references=(
        "https://github.com/horovod/horovod/issues/1955",
        "https://github.com/pytorch/pytorch/pull/42577",
        "https://github.com/facebookresearch/fairseq/pull/1890",
    ),
    related=("rank-dropped", "divisor-counts-idle-parts", "group-divisor-mismatch", "half-reduced-after-failure"),
    published="2026-11-30",
    modified="2026-11-30",
)


def broken(rows):
    if not rows:
        return []
    return [sum(column) / len(rows) for column in zip(*(gradient for gradient, _ in rows), strict=True)]


def attempt(rows):
    rows = [(gradient, is_there) for gradient, is_there in rows if any(gradient)]
    if not rows:
        return []
    return [sum(column) / len(rows) for column in zip(*(gradient for gradient, _ in rows), strict=True)]


def fixed(rows):
    gradients = [gradient for gradient, is_there in rows if is_there]
    return [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]


def checks(N, solve, check):
    check("all are there", solve([([N, 2 * N], True), ([3 * N, 4 * N], True)]), [2 * N, 3 * N])
    check("one of three has left", solve([([N], True), ([3 * N], True), ([0], False)]), [2 * N])
    check("one remains", solve([([0, 0], False), ([N, -N], True)]), [N, -N])
    check("most have left", solve([([5 * N], True)] + [([0], False)] * N), [5 * N])
    check("a gradient of zero", solve([([4 * N], True), ([0], True)]), [2 * N])
    check("a gradient of zero and a rank that left", solve([([6 * N], True), ([0], True), ([0], False)]), [3 * N])
    check("all have left", solve([([0, 0], False)] * N), [])
    check("no rank", solve([]), [])


def sample(source):
    """Draws ranks of which the first is there, and one of three of the others has left."""
    width = source.randint(1, 4)
    rows = []
    for rank in range(source.randint(2, 6)):
        is_there = rank == 0 or source.random() < 2 / 3
        is_zero = not is_there or source.random() < 0.2
        rows.append(([0 if is_zero else source.randint(-50, 50) for _ in range(width)], is_there))
    return rows


def contributions(rows):
    """Takes the rank's gradient as one of one unit, or of none where it has left."""
    return [gradient for gradient, _ in rows], Layout.from_counts([int(is_there) for _, is_there in rows])


def edges(source):
    """Draws groups of eight ranks and more that are all there."""
    return [[([source.randint(-50, 50) for _ in range(2)], True) for _ in range(count)] for count in (8, 9, 12)]
