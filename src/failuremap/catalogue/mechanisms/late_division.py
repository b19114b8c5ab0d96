"""The division happens after the backward pass: n where n/N is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=37,
    slug="late-division",
    title="The division happens after the backward pass",
    group="window-divisor",
    abstract="The summed loss goes backward as it is, and its count divides what is printed, not what is stepped on.",
    root_cause="backward() has filled the gradients by the time the loss is divided, and they keep the scale of a sum.",
    failure=(
        "Two micro-batches of 2 tokens with summed gradients 4 and 8 give 12, where 12/4 = 3 is right; with windows "
        "of 100,000 tokens the factor is 100,000, and the loss in the log is right all the while."
    ),
    failed_approach=(
        "Clipping the norm bounds the step and hides the factor: every window whose summed gradient is longer than the "
        "limit then steps equally far, whatever its mean is."
    ),
    relevance=(
        "The gradient norm is the only curve that shows it. Adam undoes a constant factor, so training may work until "
        "clipping, weight decay or an unequal window meets it. Met in torchtitan's pipeline path, where the division "
        "by valid tokens came after the schedule had run backward, and in verl, where a loss callback that returned "
        "no token count left Megatron's gradients undivided."
    ),
    limitations="What an optimizer makes of a gradient that is too large is not modelled.",
    contract=(
        "Given one [gradient_sum, count] row for each micro-batch of a window, return the gradient that is stepped "
        "on: the sum of the gradients over the sum of the counts; without any unit return []."
    ),
    domain=(
        "window: a list of (gradient, count) pairs; gradient a list of integers, all of one length, the sum over its "
        "count units, zeros where the count is 0; count an integer of 0 or more."
    ),
    clauses=(
        Clause(
            "divided-before-the-step",
            "algebraic",
            "The gradient is divided by the units of the window.",
            ("two micro-batches", "one micro-batch", "two coordinates"),
        ),
        Clause(
            "larger-window",
            "algebraic",
            "More units of the same mean leave the result as it is.",
            ("a hundred units", "unequal counts"),
        ),
        Clause("one-unit", "boundary", "A window of one unit is divided by 1.", ("one unit",)),
        Clause("zero-total", "boundary", "Without any unit there is no update: [].", ("no unit", "no micro-batch")),
    ),
    followed=("unit_sum", "count_weighted_over_ranks"),
    separated_by="more than one unit in a micro-batch: then a sum over units is no sum of means",
    audit_sees=(
        "Units that weigh alike and all weigh 1, or one over the number of ranks under DDP: the total weight is the "
        "number of units of the step."
    ),
    repair=(
        "Divide before backward, or divide the gradients before anything reads them. Before: loss = "
        "F.cross_entropy(..., reduction='sum') / n; loss.backward(), n the window's count, all-reduced; times "
        "dist.get_world_size() where the ranks are averaged (DDP). After: for p in model.parameters(): p.grad /= n, "
        "ahead of clipping and of optimizer.step()."
    ),
    references=(
        "https://github.com/pytorch/torchtitan/issues/2972",
        "https://github.com/verl-project/verl/issues/6609",
        "https://github.com/verl-project/verl/pull/436",
    ),
    related=("window-sum-not-mean", "mean-of-summed-gradient", "metric-reduction", "clip-in-wrong-place"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(window):
    """Turns sums into means of one rank's micro-batches."""
    from fractions import Fraction

    means = [[Fraction(value) / max(count, 1) for value in gradient] for gradient, count in window]
    return means, Layout.grid({(0, m): count for m, (_, count) in enumerate(window)})


def sample(source):
    """Draws a window with a count of 1 or more in each micro-batch."""
    width = source.randint(1, 3)
    return [
        ([source.randint(-50, 50) for _ in range(width)], source.randint(1, 9)) for _ in range(source.randint(1, 5))
    ]


def broken(window):
    # The count divides the loss for the log, where no gradient flows any more.
    gradients = [gradient for gradient, _ in window]
    return [sum(column) for column in zip(*gradients, strict=True)]


def attempt(window):
    import math

    gradients = [gradient for gradient, _ in window]
    sums = [sum(column) for column in zip(*gradients, strict=True)]
    norm = math.sqrt(sum(value * value for value in sums))
    return [value / max(norm, 1) for value in sums]


def fixed(window):
    total = sum(count for _, count in window)
    gradients = [gradient for gradient, count in window if count]
    return [sum(column) / total for column in zip(*gradients, strict=True)]


def checks(N, solve, check):
    check("two micro-batches", solve([([4 * N], 2), ([8 * N], 2)]), [3 * N])
    check("one micro-batch", solve([([10 * N], 4)]), [2.5 * N])
    check("two coordinates", solve([([6 * N, -8 * N], 1), ([6 * N, -8 * N], 3)]), [3 * N, -4 * N])
    check("a hundred units", solve([([50 * N], 50), ([150 * N], 50)]), [2 * N])
    check("unequal counts", solve([([N], 1), ([15 * N], 3)]), [4 * N])
    check("one unit", solve([([1], 1)]), [1])
    check("no unit", solve([([0], 0)] * N), [])
    check("no micro-batch", solve([]), [])
