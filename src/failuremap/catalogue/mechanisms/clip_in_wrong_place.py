"""Gradients are clipped before they are aggregated: min(1, C/|g_k|) on each."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from fractions import Fraction

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=9,
    slug="clip-in-wrong-place",
    title="Gradients are clipped before they are aggregated",
    group="norms",
    abstract="Each rank or micro-batch is scaled by its own norm, so weights change with the data.",
    root_cause="clip_grad_norm_ runs inside the window, or before the reduction.",
    failure=(
        "With a limit of 5, [9, 12] on one rank is cut to [3, 4], and [-3, -4] on the other stays: their mean is zero. "
        "Clipped afterwards, the mean [3, 4] has norm 5 and is left as it is."
    ),
    failed_approach=(
        "A second clip behind the reduction bounds the update, which was bounded already: the mean of clipped "
        "gradients is no longer than the limit. The lengths that the first clip took away stay lost."
    ),
    relevance=(
        "The contributions that are clipped are the long ones: rare and hard batches lose weight, and the direction "
        "of the update turns. Met in tt-train, and in Horovod, where some front ends clipped before the all-reduce."
    ),
    limitations="One norm over all parameters; clipping by value, or of each tensor alone, follows the same order.",
    contract=(
        "Given the ranks' gradients and a limit, return their mean, scaled once by min(1, limit/norm) where norm is "
        "the length of that mean; without a gradient return []."
    ),
    domain=(
        "step: a dictionary of limit, a number above 0, and gradients, a list of lists of finite numbers, all of one "
        "length; all ranks have equal counts."
    ),
    clauses=(
        Clause(
            "mean-first",
            "algebraic",
            "The norm that counts is that of the mean.",
            ("one long gradient", "gradients that cancel", "orthogonal gradients"),
        ),
        Clause(
            "direction",
            "algebraic",
            "Clipping changes the length of the update alone.",
            ("equal gradients", "a single rank"),
        ),
        Clause(
            "below-the-limit",
            "boundary",
            "A mean no longer than the limit stays as it is.",
            ("short gradients", "a mean of the limit's length"),
        ),
        Clause("no-gradient", "boundary", "Without any gradient there is no update: [].", ("no ranks",)),
    ),
    promised="",
    law="The update is the mean of the gradients in direction, and no longer than the limit nor than that mean.",
    by_signs_alone=True,
    signs=signs({Sign.CLIPPED_BEFORE_REDUCTION}),
    separated_by="a run without clipping",
    symptoms=(
        "Each rank clips its own gradient before the all_reduce.",
        "clip_grad_norm_ runs on every micro-batch, before the window is complete.",
    ),
    audit_sees=(
        "Clip factors that differ between ranks or micro-batches, and coefficients that are alike once these factors "
        "are divided out; without torch's clipping functions, coefficients that change from step to step."
    ),
    repair=(
        "Clip once in a window, after its last backward() and after the ranks are reduced (under DDP that "
        "backward() does it): torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm); optimizer.step(). With "
        "a GradScaler, scaler.unscale_(optimizer) comes before the clipping."
    ),
    references=(
        "https://github.com/horovod/horovod/issues/1346",
        "https://github.com/tenstorrent/tt-metal/pull/17672",
        "https://github.com/verl-project/verl/pull/436",
    ),
    related=("norm-misses-shards", "norm-counts-copies", "late-division"),
    published="2026-11-30",
    modified="2026-11-30",
)


def broken(step):
    import math

    def clip(gradient):
        norm = math.sqrt(math.fsum(value * value for value in gradient))
        return [value * step["limit"] / norm for value in gradient] if norm > step["limit"] else gradient

    clipped = [clip(gradient) for gradient in step["gradients"]]
    return [math.fsum(column) / len(clipped) for column in zip(*clipped, strict=True)]


def attempt(step):
    import math

    def clip(gradient):
        norm = math.sqrt(math.fsum(value * value for value in gradient))
        return [value * step["limit"] / norm for value in gradient] if norm > step["limit"] else gradient

    clipped = [clip(gradient) for gradient in step["gradients"]]
    return clip([math.fsum(column) / len(clipped) for column in zip(*clipped, strict=True)])


def fixed(step):
    import math

    def clip(gradient):
        norm = math.sqrt(math.fsum(value * value for value in gradient))
        return [value * step["limit"] / norm for value in gradient] if norm > step["limit"] else gradient

    gradients = step["gradients"]
    return clip([math.fsum(column) / len(gradients) for column in zip(*gradients, strict=True)])


def checks(N, solve, check):
    def clipped(limit, *gradients):
        return solve({"limit": limit, "gradients": list(gradients)})

    check("one long gradient", clipped(2.5 * N, [6 * N, 8 * N], [0, 0]), [1.5 * N, 2 * N])
    check("gradients that cancel", clipped(5 * N, [9 * N, 12 * N], [-3 * N, -4 * N]), [3 * N, 4 * N])
    check("orthogonal gradients", clipped(5 * N, [6 * N, 0], [0, 8 * N]), [3 * N, 4 * N])
    check("equal gradients", clipped(2.5 * N, [3 * N, -4 * N], [3 * N, -4 * N]), [1.5 * N, -2 * N])
    check("a single rank", clipped(5 * N, [6 * N, 8 * N]), [3 * N, 4 * N])
    check("short gradients", clipped(8 * N, [N, 2 * N], [3 * N, 0]), [2 * N, N])
    check("a mean of the limit's length", clipped(5 * N, [4 * N, 3 * N], [2 * N, 5 * N]), [3 * N, 4 * N])
    check("no ranks", clipped(N), [])


def sample(source):
    """Draws gradients of one width, and a limit that is below their length as often as not."""
    width = source.randint(1, 3)
    gradients = [[source.randint(-20, 20) for _ in range(width)] for _ in range(source.randint(1, 4))]
    return {"limit": source.randint(1, 30), "gradients": gradients}


def law(step, solve):
    """Compares signs and squares with those of the mean, in fractions; the bound is for a root and two quotients."""
    means = [Fraction(sum(column), len(step["gradients"])) for column in zip(*step["gradients"], strict=True)]
    square = sum(mean * mean for mean in means)
    factor = min(Fraction(1), Fraction(step["limit"]) ** 2 / square) if square else 1
    update = [Fraction(value) for value in solve(step)]
    return len(update) == len(means) and all(
        value * mean >= 0 and abs(value * value - mean * mean * factor) <= mean * mean * Fraction(1, 2**40)
        for value, mean in zip(update, means, strict=True)
    )


def exact(step, root):
    """Does what `fixed` does, with an exact root."""
    means = [sum(column) / len(step["gradients"]) for column in zip(*step["gradients"], strict=True)]
    norm = root(sum(mean * mean for mean in means)) if means else 0
    return [mean * step["limit"] / norm for mean in means] if norm > step["limit"] else means


def edges(source):
    """Draws limits far beyond any gradient, in millions, and below 1, one of them between the length and its square."""
    gradients = [[source.randint(-50, 50) * 10**7 for _ in range(3)] for _ in range(3)]
    small = [[source.randint(1, 50) / 8 for _ in range(3)] for _ in range(3)]
    return [
        {"limit": 10**12, "gradients": gradients},
        {"limit": 10**7, "gradients": [*gradients, [10**10, 7, -5]]},
        *({"limit": limit, "gradients": small} for limit in (0.125, 0.7, 1.5, 1e-4, 1e-9)),
        {"limit": 0.25, "gradients": [[0.375, 0.0]]},
        {"limit": 1, "gradients": [[3e100, 1.0, -4e100]]},
    ]
