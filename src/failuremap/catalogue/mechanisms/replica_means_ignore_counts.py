"""Replica gradients ignore local sample counts: 1/R where n_r/N is right."""
# ruff: noqa: E501, E702
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=1,
    slug="replica-means-ignore-counts",
    title="Replica gradients ignore local sample counts",
    group="counts-across-ranks",
    abstract="Each rank's mean gradient weighs the same, however many units it is a mean over.",
    root_cause="Replica means have different denominators, so averaging them equally biases the global batch gradient.",
    failure=(
        "With 1 unit on one rank and 3 on the other, the average gives the single unit half of the update, where a "
        "quarter is its share: it weighs three times one of the others."
    ),
    failed_approach=(
        "Weighting the numerator but dividing by replica count still scales the update incorrectly: by N/R, which "
        "changes with every batch."
    ),
    relevance=(
        "DDP and FSDP average over ranks by default, and token counts differ on almost every step of language-model "
        "training. The loss falls all the same; short batches are over-represented for the whole run."
    ),
    limitations="The rows are given: that a job counts its units where the loss counts them is not modelled.",
    contract=(
        "Given [gradient_mean, example_count] rows, return the elementwise global example mean; "
        "zero-count rows contribute nothing and total zero returns []."
    ),
    domain=(
        "rows: a list of (gradient, count) pairs; gradient a list of finite numbers, all of one length; count an "
        "integer of 0 or more. The gradient of a row with count 0 may hold anything, or be empty."
    ),
    clauses=(
        Clause(
            "weighs-by-count",
            "algebraic",
            "Each row weighs its count over the total count.",
            ("unequal batch sizes", "unequal sizes vary"),
        ),
        Clause("equal-counts", "algebraic", "With equal counts it is the plain mean.", ("equal sizes",)),
        Clause("zero-count", "boundary", "A row with count 0 contributes nothing.", ("zero-weight row",)),
        Clause(
            "zero-total",
            "boundary",
            "Without any unit there is no update: [].",
            ("all zero weights", "empty collective"),
        ),
        Clause("single", "boundary", "A single row is returned as it is.", ("single contribution",)),
    ),
    followed=("mean", "rank_means_of_window_weighted"),
    attempt_follows="count_weighted_over_ranks",
    signs=signs({Sign.UNEQUAL_COUNTS_ACROSS_RANKS}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="unequal counts on the ranks, with equal counts in the micro-batches of each rank",
    symptoms=(
        "The loss looks fine, but a token on a short batch weighs more than one on a long batch.",
        "Ranks with unequal batch sizes or token counts: their means are averaged equally.",
    ),
    audit_sees=(
        "Effective weights that are equal on each rank and differ between ranks, in inverse proportion to the ranks' "
        "unit counts."
    ),
    repair=(
        "Divide summed losses once, by the count of the whole window (the list of this rank's batches up to the "
        "step) on all ranks: n = sum((targets != -100).sum() for inputs, targets in window); dist.all_reduce(n); "
        "loss = F.cross_entropy(..., reduction='sum') / n, times dist.get_world_size() where the ranks are averaged "
        "(DDP). No other division."
    ),
    references=(
        "https://github.com/huggingface/transformers/issues/608",
        "https://github.com/pytorch/pytorch/issues/67253",
        "https://github.com/huggingface/transformers/pull/34373",
        "https://github.com/PrimeIntellect-ai/prime-rl/pull/2562",
    ),
    related=("mean-of-microbatch-means", "weight-kind-mismatch", "global-denominator-averaged-again"),
    alias="FA-99241",
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(rows):
    """Splits the rows into mean gradients and the layout of their counts."""
    return [gradient for gradient, _ in rows], Layout.from_counts([count for _, count in rows])


def sample(source):
    """Draws rows of one width, with a count of 1 or more on each."""
    width = source.randint(1, 4)
    vectors = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 6))]
    return [(vector, source.randint(1, 9)) for vector in vectors]


# The published scripts are made of the lines below, byte for byte.
# fmt: off
def broken(rows):
    return [sum(row[0][j] for row in rows)/len(rows) for j in range(len(rows[0][0]))] if rows else []
def attempt(rows):
    total=sum(r[1] for r in rows); return [sum(r[0][j]*r[1] for r in rows)/len(rows) for j in range(len(rows[0][0]))] if rows and total else []
def fixed(rows):
    rows=[r for r in rows if r[1]]; total=sum(r[1] for r in rows)
    return [sum(r[0][j]*r[1] for r in rows)/total for j in range(len(rows[0][0]))] if rows else []
def checks(N, solve, check):
    a=[([N,2*N],1),([3*N,4*N],3)]
    check('unequal batch sizes',solve(a),[2.5*N,3.5*N])
    check('equal sizes',solve([([N],2),([3*N],2)]),[2*N])
    check('zero-weight row',solve([([9*N],0),([2*N],2)]),[2*N])
    check('all zero weights',solve([([N],0)]),[])
    check('empty collective',solve([]),[])
    check('single contribution',solve([([N,2*N],N)]),[N,2*N])
    check('unequal sizes vary',solve([([N],N),([5*N],N+1)]),[N*(6*N+5)/(2*N+1)])
# fmt: on


def edges(source):
    """Draws rows without units that hold what an empty batch leaves, in the first place and elsewhere."""
    nan, inf = float("nan"), float("inf")
    rows = [([source.randint(-50, 50) for _ in range(3)], source.randint(1, 9)) for _ in range(3)]
    spoilt = [([nan, inf, -inf], 0), ([], 0), ([7], 0), ([1e300] * 5, 0)]
    return [
        *([*rows[:place], row, *rows[place:]] for row in spoilt for place in (0, 1, 3)),
        spoilt,
        [*spoilt, *rows],
        [([], 2), ([], 3)],
    ]
