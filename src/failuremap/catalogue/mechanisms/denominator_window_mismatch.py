"""The count comes from another window than the sum: 1/N_B where 1/N_A is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=35,
    slug="denominator-window-mismatch",
    title="The count comes from another window than the sum",
    group="window-divisor",
    abstract="Summed gradients are divided by a count of other units: an earlier window, one micro-batch, a setting.",
    root_cause=(
        "The denominator is computed away from the losses that it belongs to, and nothing ties the two together when "
        "batches, shards or settings change."
    ),
    failure=(
        "The window before had 4 and 1 tokens. This one has 1 and 2, with summed gradients of 6 each, and is divided "
        "by the 5: 2.4, where 12/3 = 4 is right."
    ),
    failed_approach=(
        "Rescaling the borrowed count by the ratio of the settings (micro-batches, sequence shards) makes it right "
        "for equal counts, where hardly anything was wrong, and leaves it wrong for unequal ones."
    ),
    relevance=(
        "The size of the step then follows the ratio of two unrelated counts from step to step. axolotl took the "
        "count of a window to be that of the local shard times the accumulation until it was reduced over the "
        "sequence shards; the same comes of a token count that is computed once, or while batches are prefetched."
    ),
    limitations="All units of a step weigh alike here; a count of the rank's own would set the ranks apart as well.",
    contract=(
        "Given [counts_seen, window], the counts that a loop took note of and the window's [gradient_sum, count] "
        "rows, return the sum of the gradients over the units of the window itself; [] where it has none."
    ),
    domain=(
        "step: a pair of a list of integers of 0 or more, and a list of (gradient, count) pairs; gradient a list of "
        "integers, all of one length, zeros where the count is 0."
    ),
    clauses=(
        Clause(
            "own-count",
            "algebraic",
            "Only the counts of the window itself divide it.",
            ("the window before", "first micro-batch only", "a short first micro-batch"),
        ),
        Clause("same-window", "algebraic", "Where both are of one window it is the mean.", ("the window itself",)),
        Clause("zero-seen", "boundary", "What was counted may be 0 and changes nothing.", ("nothing was counted",)),
        Clause("zero-total", "boundary", "A window without a unit gives no update: [].", ("no unit", "no micro-batch")),
        Clause("window-of-one", "boundary", "One micro-batch is divided by its count.", ("window of one",)),
    ),
    by_signs_alone=True,
    signs=signs({Sign.BORROWED_COUNT}),
    separated_by="two steps whose windows hold different numbers of units",
    audit_sees=(
        "Units that weigh alike within a step, and together another multiple of the mean at each step. It is named "
        "where the divisor is the count of the window before or after, that of the first or last micro-batch times "
        "their number, or that of one rank; where it is constant, the audit says that the update is a sum over "
        "something fixed."
    ),
    repair=(
        "Count where the losses are summed, over the very list that goes backward: n = sum((targets != -100).sum() "
        "for inputs, targets in window); dist.all_reduce(n) over every group that holds a part of these tokens "
        "(data-parallel ranks, sequence shards); loss = F.cross_entropy(..., reduction='sum') / n, times "
        "dist.get_world_size() where the ranks are averaged."
    ),
    references=("https://github.com/axolotl-ai-cloud/axolotl/pull/2977",),
    related=(
        "divisor-counts-idle-parts",
        "partial-window-full-divisor",
        "group-divisor-mismatch",
        "aux-term-other-denominator",
    ),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(step):
    """Turns the window's sums into means of one rank's micro-batches."""
    from fractions import Fraction

    _, window = step
    means = [[Fraction(value) / max(count, 1) for value in gradient] for gradient, count in window]
    return means, Layout.grid({(0, m): count for m, (_, count) in enumerate(window)})


def sample(source):
    """Draws a window, and counts that are its own or those of another one."""
    width = source.randint(1, 3)
    window = [
        ([source.randint(-50, 50) for _ in range(width)], source.randint(1, 9)) for _ in range(source.randint(1, 4))
    ]
    others = [source.randint(1, 9) for _ in range(source.randint(1, 4))]
    return source.choice([others, [count for _, count in window]]), window


def broken(step):
    seen, window = step
    total = sum(seen)
    gradients = [gradient for gradient, _ in window]
    return [sum(column) / total for column in zip(*gradients, strict=True)] if total else []


def attempt(step):
    seen, window = step
    total = sum(seen) * len(window)
    gradients = [gradient for gradient, _ in window]
    return [sum(column) * len(seen) / total for column in zip(*gradients, strict=True)] if total else []


def fixed(step):
    _, window = step
    total = sum(count for _, count in window)
    gradients = [gradient for gradient, count in window if count]
    return [sum(column) / total for column in zip(*gradients, strict=True)]


def checks(N, solve, check):
    check("the window itself", solve(([2, 2], [([4 * N], 2), ([8 * N], 2)])), [3 * N])
    check("the window before", solve(([N + 3, 1], [([6 * N, 3], 1), ([6 * N, 3], 2)])), [4 * N, 2])
    check("first micro-batch only", solve(([2], [([2 * N], 2), ([10 * N], 2)])), [3 * N])
    check("a short first micro-batch", solve(([1], [([N], 1), ([7 * N], 3)])), [2 * N])
    check("nothing was counted", solve(([0], [([6 * N], 2)])), [3 * N])
    check("window of one", solve(([N], [([2 * N], N)])), [2])
    check("no unit", solve(([N], [([0], 0)])), [])
    check("no micro-batch", solve(([N], [])), [])


def edges(source):
    """Draws a window with micro-batches that are alike, and takes note of other counts: none, many, large."""
    window = [([source.randint(-50, 50) for _ in range(2)], source.randint(1, 9)) for _ in range(3)]
    counts: tuple[list[int], ...] = (
        [],
        [0] * 5,
        [1],
        [source.randint(1, 9)] * 5,
        [source.randint(1, 9)] * 40,
        [10**6] * 5,
    )
    return [(seen, window + window[:2]) for seen in counts]
