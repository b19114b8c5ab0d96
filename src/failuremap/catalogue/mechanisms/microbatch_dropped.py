"""A micro-batch of the window reaches no update: 0 on that one."""
# mypy: disable-error-code="no-untyped-def, var-annotated"

from fractions import Fraction

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=67,
    slug="microbatch-dropped",
    title="A micro-batch of the window reaches no update",
    group="window-parts",
    abstract="Some micro-batches are computed and lost, while several others of the same window are kept.",
    root_cause=(
        "A schedule leaves one out, a backward is skipped, or a clear in the middle of the window loses what came "
        "before it."
    ),
    failure=(
        "Four micro-batches of 1 unit with gradients 1, 2, 3 and 6 and a clear after the second leave 9/4 = 2.25 where "
        "12/4 = 3 is right; after a restart in the middle of a window it is the same part of every window that is lost."
    ),
    failed_approach=(
        "Dividing by the units that are left makes a proper mean of them, 9/2 here, and hides the loss from a check of "
        "the divisor: the micro-batches before the clear still weigh nothing."
    ),
    relevance=(
        "Half of a window lost is half of the data paid for, at a batch size that no log shows. Counters that decide "
        "when to clear and when to step agree in a run from the start; a restart, an evaluation or a skipped batch in "
        "the middle of a window sets them apart."
    ),
    limitations="One cause of many: the clear is placed by a counter of the job; pipeline schedules are not modelled.",
    contract=(
        "Given the [gradient_sum, count] rows of one window, and the job's own count of micro-batches before it, "
        "return the elementwise mean over all units of the rows; without any unit return []. The count before changes "
        "nothing."
    ),
    domain=(
        "window: {'before': micro-batches that the job had run before this window, an integer of 0 or more; 'rows': "
        "(gradient, count) pairs}; gradient a list of finite numbers, all of one length, summed over the units. A "
        "count of 0 comes with zeros."
    ),
    clauses=(
        Clause(
            "exactly-once",
            "algebraic",
            "Each micro-batch of the window is in the update, whatever ran before it.",
            ("two of four before a clear", "first of three", "all but the last"),
        ),
        Clause(
            "whole-divisor",
            "algebraic",
            "The divisor is the units of the whole window.",
            ("equal gradients", "two of four before a clear"),
        ),
        Clause("from-the-start", "boundary", "After whole windows nothing differs.", ("whole windows before",)),
        Clause("single", "boundary", "A window of one micro-batch is its mean.", ("single micro-batch",)),
        Clause("no-unit", "boundary", "Without any unit there is no update: [].", ("no micro-batch", "no unit")),
    ),
    by_signs_alone=True,
    signs=signs({Sign.MICRO_BATCH_MISSING}),
    never=frozenset({Sign.SINGLE_MICRO_BATCH, Sign.FIRST_MICRO_BATCH_ONLY, Sign.LAST_MICRO_BATCH_ONLY}),
    separated_by="the micro-batches that are left: several here",
    audit_sees="Coefficient 0 on some micro-batches of the window, equal ones on two or more others.",
    repair=(
        "Clear once in a window, after the step: optimizer.step(); optimizer.zero_grad(set_to_none=True). Run "
        "backward() on every micro-batch; the losses that now add up are divided once, for equal counts: (loss / "
        "len(window)).backward()"
    ),
    references=(),
    related=("accumulator-overwritten", "only-first-microbatch-kept", "tail-window-dropped", "divided-twice"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(window):
    """Divides each row by its count: the micro-batches' mean gradients, all on one rank."""
    means = [[Fraction(value) / max(count, 1) for value in gradient] for gradient, count in window["rows"]]
    return means, Layout.grid({(0, index): count for index, (_, count) in enumerate(window["rows"])})


def sample(source):
    """Draws a window of one width, with a count of 1 or more on each micro-batch."""
    width = source.randint(1, 4)
    rows = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 6))]
    return {"before": source.randint(0, 20), "rows": [(gradient, source.randint(1, 9)) for gradient in rows]}


def broken(window):
    rows, buffer = window["rows"], []
    for index, (gradient, _) in enumerate(rows):
        if (window["before"] + index) % len(rows) == 0:
            buffer = []
        buffer = [held + value for held, value in zip(buffer, gradient, strict=True)] if buffer else list(gradient)
    units = sum(count for _, count in rows)
    return [value / units for value in buffer] if units else []


def attempt(window):
    rows, buffer, units = window["rows"], [], 0
    for index, (gradient, count) in enumerate(rows):
        if (window["before"] + index) % len(rows) == 0:
            buffer, units = [], 0
        buffer = [held + value for held, value in zip(buffer, gradient, strict=True)] if buffer else list(gradient)
        units += count
    return [value / units for value in buffer] if units else []


def fixed(window):
    buffer, units = [], 0
    for gradient, count in window["rows"]:
        buffer = [held + value for held, value in zip(buffer, gradient, strict=True)] if buffer else list(gradient)
        units += count
    return [value / units for value in buffer] if units else []


def checks(N, solve, check):
    four = [([N], 1), ([2 * N], 1), ([3 * N], 1), ([6 * N], 1)]
    check("two of four before a clear", solve({"before": 4 * N + 2, "rows": four}), [3 * N])
    check("first of three", solve({"before": 2, "rows": [([N], 1), ([N], 1), ([6 * N], 2)]}), [2 * N])
    check("all but the last", solve({"before": 1, "rows": [([3 * N], 1), ([5 * N], 1)]}), [4 * N])
    check("equal gradients", solve({"before": 2, "rows": [([N], 1), ([N], 1), ([N], 1)]}), [N])
    check("whole windows before", solve({"before": 4 * N, "rows": four}), [3 * N])
    check("single micro-batch", solve({"before": N, "rows": [([2 * N, 4 * N], 2)]}), [N, 2 * N])
    check("no micro-batch", solve({"before": N, "rows": []}), [])
    check("no unit", solve({"before": N, "rows": [([0], 0), ([0], 0)]}), [])


def edges(source):
    """Draws windows late in a job: after thousands of micro-batches, and beside powers of two."""
    rows = [([source.randint(-50, 50) for _ in range(2)], source.randint(1, 9)) for _ in range(5)]
    before = 21, 24, 31, 32, 47, 63, 64, 99, 100, 127, 128, 255, 1000, 1023, 10**6
    return [{"before": count + 1, "rows": rows} for count in before] + [{"before": 2**40, "rows": rows}]
