"""Only the last micro-batch reaches the optimizer: 0 on all earlier ones."""
# mypy: disable-error-code="no-untyped-def, var-annotated"

from fractions import Fraction

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=61,
    slug="accumulator-overwritten",
    title="Only the last micro-batch reaches the optimizer",
    group="window-parts",
    abstract="The earlier micro-batches of a window are computed and thrown away; the loss looks normal.",
    root_cause="The gradient is cleared, or copied over instead of added to, between two micro-batches of one window.",
    failure=(
        "A window of [1 unit, sum 1] and [3 units, sum 9] steps on 9/3 = 3; the mean over its 4 units is 10/4 = 2.5. "
        "With 8 micro-batches, seven eighths of the computation are lost."
    ),
    failed_approach=(
        "Saving each micro-batch's gradient and adding it to the next one rescues one predecessor, not all: a test "
        "with 2 micro-batches passes, and in a window of 3 or more everything before the last two is still lost."
    ),
    relevance=(
        "The printed loss is averaged over all micro-batches and falls as expected, at the batch size of one "
        "micro-batch. It was met in DeepSpeed ZeRO-2 offload (a counter chose between copying and adding), in a "
        "pipeline stage that reset its gradients per micro-batch, in a no_sync() that did nothing, and in FSDP1 with "
        "CPU offload outside no_sync(), where it is a documented limitation."
    ),
    limitations=(
        "One buffer on one rank: that some parameters (a tied embedding, say) may take the adding branch and others "
        "the copying one is left out."
    ),
    contract=(
        "Given the [gradient_sum, count] rows of a window's micro-batches, return the elementwise mean over all units "
        "of the window; without any unit return []."
    ),
    domain=(
        "window: a list of (gradient, count) pairs in the order of their backward passes; gradient a list of finite "
        "numbers, all of one length, summed over the units; count an integer of 0 or more. A count of 0 comes with "
        "zeros."
    ),
    clauses=(
        Clause(
            "all-micro-batches",
            "algebraic",
            "Each micro-batch's sum is added, wherever it stands in the window.",
            ("two micro-batches", "three micro-batches", "four equal counts"),
        ),
        Clause(
            "divided-once",
            "algebraic",
            "The division is by the units of the whole window.",
            ("two micro-batches", "three micro-batches"),
        ),
        Clause("single", "boundary", "A window of one micro-batch is its mean.", ("single micro-batch",)),
        Clause(
            "idle-micro-batch",
            "boundary",
            "A micro-batch without units leaves the others' result as it is.",
            ("last without units", "first without units"),
        ),
        Clause("no-unit", "boundary", "Without any unit there is no update: [].", ("no micro-batch", "no unit")),
        Clause("input-kept", "purity", "The gradients handed over are not changed.", ("window left as it was",)),
    ),
    followed=("last_micro_batch",),
    by_signs_alone=True,
    signs=signs({Sign.LAST_MICRO_BATCH_ONLY}),
    never=frozenset({Sign.SINGLE_MICRO_BATCH}),
    separated_by="the micro-batch that is left: the last one here",
    audit_sees="Coefficient 0 on every micro-batch of the window but the last, on all ranks.",
    repair=(
        "Clear once in a window, after the step: optimizer.step(); optimizer.zero_grad(set_to_none=True). Let each "
        "backward() add to p.grad, never assign it; the losses that now add up are divided once, for equal counts: "
        "(loss / len(window)).backward()"
    ),
    references=(
        "https://github.com/pytorch/pytorch/issues/73784",
        "https://github.com/deepspeedai/DeepSpeed/pull/6550",
        "https://github.com/NVIDIA/Megatron-LM/pull/7186",
        "https://github.com/NVIDIA-NeMo/Automodel/pull/3530",
        "https://github.com/ServiceNow/Fast-LLM/pull/551",
    ),
    related=("only-first-microbatch-kept", "microbatch-dropped", "stale-gradient-leaks", "window-sum-not-mean"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(window):
    """Divides each row by its count: the micro-batches' mean gradients, all on one rank."""
    means = [[Fraction(value) / max(count, 1) for value in gradient] for gradient, count in window]
    return means, Layout.grid({(0, index): count for index, (_, count) in enumerate(window)})


def sample(source):
    """Draws a window of one width, with a count of 1 or more on each micro-batch."""
    width = source.randint(1, 4)
    window = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 6))]
    return [(gradient, source.randint(1, 9)) for gradient in window]


def broken(window):
    buffer, units = [], 0
    for gradient, count in window:
        buffer, units = list(gradient), count
    return [value / units for value in buffer] if units else []


def attempt(window):
    buffer, units, saved = [], 0, ([], 0)
    for gradient, count in window:
        buffer, units = list(gradient), count
        if saved[0]:
            buffer = [value + before for value, before in zip(buffer, saved[0], strict=True)]
            units += saved[1]
        saved = (gradient, count)
    return [value / units for value in buffer] if units else []


def fixed(window):
    buffer, units = [], 0
    for gradient, count in window:
        buffer = [held + value for held, value in zip(buffer, gradient, strict=True)] if buffer else list(gradient)
        units += count
    return [value / units for value in buffer] if units else []


def checks(N, solve, check):
    check("two micro-batches", solve([([N, 2 * N], 1), ([3 * N, 4 * N], 3)]), [N, 1.5 * N])
    check("three micro-batches", solve([([N], 1), ([N + 1], 1), ([4 * N], 2)]), [(6 * N + 1) / 4])
    check("four equal counts", solve([([N], 1), ([-N], 1), ([2 * N], 1), ([6 * N], 1)]), [2 * N])
    check("single micro-batch", solve([([N, 2 * N], N)]), [1, 2])
    check("last without units", solve([([2 * N], 2), ([0], 0)]), [N])
    check("first without units", solve([([0], 0), ([3 * N], N)]), [3])
    check("no micro-batch", solve([]), [])
    check("no unit", solve([([0], 0), ([0], 0)]), [])
    window = [([N], 1), ([2 * N], 1)]
    solve(window)
    check("window left as it was", window, [([N], 1), ([2 * N], 1)])
