"""Only the first micro-batch reaches the optimizer: 0 on all later ones."""
# mypy: disable-error-code="no-untyped-def, var-annotated"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=66,
    slug="only-first-microbatch-kept",
    title="Only the first micro-batch reaches the optimizer",
    group="window-parts",
    abstract="The later micro-batches of a window are computed and never added.",
    root_cause="The gradient is saved or sent after the first backward, and the later ones never join it.",
    failure=(
        "Means 1 and 5 over 1 and 3 units give an update of 1 where 4 is right. The 3 units of the second micro-batch "
        "have cost a forward and a backward and weigh nothing."
    ),
    failed_approach=(
        "Averaging the buffer with each later micro-batch is right for 2 of equal counts. From the third on it is a "
        "moving average: three equal micro-batches weigh 1/4, 1/4 and 1/2."
    ),
    relevance=(
        "A buffer beside .grad (a copy in float32, a bucket to send, a pinned buffer for offloading) that is filled "
        "where it is empty takes this form. A loop tested without accumulation never shows it, and one with it only "
        "trains on less data than it reads."
    ),
    limitations="All parameters are filled at the same moment; a buffer filled parameter by parameter may mix.",
    contract=(
        "Given the [gradient_mean, count] rows of a window's micro-batches in the order of their backward passes, "
        "return the elementwise mean over all units; zero-count rows contribute nothing and total zero returns []."
    ),
    domain=(
        "window: a list of (gradient, count) pairs; gradient a list of finite numbers, all of one length; count an "
        "integer of 0 or more."
    ),
    clauses=(
        Clause(
            "later-ones-join",
            "algebraic",
            "Each later micro-batch weighs its count over the window's.",
            ("unequal counts", "three equal counts", "later ones cancel the first"),
        ),
        Clause("two-equal", "algebraic", "Two equal counts give the plain mean.", ("two equal counts",)),
        Clause("single", "boundary", "A single micro-batch is returned as it is.", ("single micro-batch",)),
        Clause(
            "zero-count",
            "boundary",
            "A micro-batch of count 0 contributes nothing, also where it is the first.",
            ("first of count 0", "last of count 0"),
        ),
        Clause("zero-total", "boundary", "Without any unit there is no update: [].", ("no micro-batch", "no unit")),
    ),
    followed=("first_micro_batch",),
    by_signs_alone=True,
    signs=signs({Sign.FIRST_MICRO_BATCH_ONLY}),
    never=frozenset({Sign.SINGLE_MICRO_BATCH}),
    separated_by="the micro-batch that is left: the first one here",
    audit_sees="Coefficient 0 on every micro-batch of the window but the first, on all ranks.",
    repair=(
        "Copy, send and step on p.grad after the window's last backward() only. The losses that now add up are "
        "divided once, for equal counts: (loss / len(window)).backward()"
    ),
    references=(),
    related=("accumulator-overwritten", "microbatch-dropped", "sync-on-wrong-microbatch"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(window):
    """Takes each row as one micro-batch of one rank."""
    layout = Layout.grid({(0, index): count for index, (_, count) in enumerate(window)})
    return [gradient for gradient, _ in window], layout


def sample(source):
    """Draws a window of one width, with a count of 1 or more on each micro-batch."""
    width = source.randint(1, 4)
    window = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 6))]
    return [(gradient, source.randint(1, 9)) for gradient in window]


def broken(window):
    buffer = []
    for gradient, _ in window:
        if not buffer:
            buffer = list(gradient)
    return buffer


def attempt(window):
    buffer = []
    for gradient, count in window:
        if count and buffer:
            buffer = [(held + value) / 2 for held, value in zip(buffer, gradient, strict=True)]
        elif count:
            buffer = list(gradient)
    return buffer


def fixed(window):
    buffer, units = [], 0
    for gradient, count in window:
        if count:
            held = buffer or [0] * len(gradient)
            buffer = [before + value * count for before, value in zip(held, gradient, strict=True)]
            units += count
    return [value / units for value in buffer]


def checks(N, solve, check):
    check("unequal counts", solve([([N, 2 * N], 1), ([5 * N, 6 * N], 3)]), [4 * N, 5 * N])
    check("three equal counts", solve([([N], 1), ([N + 1], 1), ([4 * N], 1)]), [(6 * N + 1) / 3])
    check("later ones cancel the first", solve([([2 * N], 2), ([-N], 2), ([-N], 2)]), [0])
    check("two equal counts", solve([([N], 2), ([3 * N], 2)]), [2 * N])
    check("single micro-batch", solve([([N, 2 * N], N)]), [N, 2 * N])
    check("first of count 0", solve([([9 * N], 0), ([2 * N], 2)]), [2 * N])
    check("last of count 0", solve([([2 * N], 2), ([9 * N], 0)]), [2 * N])
    check("no micro-batch", solve([]), [])
    check("no unit", solve([([N], 0), ([3 * N], 0)]), [])
