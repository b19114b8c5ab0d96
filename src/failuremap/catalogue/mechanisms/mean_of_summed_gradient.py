"""A mean over ranks is taken of a gradient that is summed already: R equal copies, so 1 where 1/R is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=18,
    slug="mean-of-summed-gradient",
    title="A mean over ranks is taken of a gradient that is summed already",
    group="sum-or-mean",
    abstract="Every rank holds the summed gradient when the loop averages it, and a mean of equal copies does nothing.",
    root_cause=(
        "A collective ran before the one in sight: in autograd, in a hook, or in a helper for some of the parameters. "
        "The average behind it was written for gradients that differ between the ranks."
    ),
    failure=(
        "Two ranks with gradients 1 and 3: the backward leaves 4 on both, and the average of 4 and 4 is 4, where 2 is "
        "right. On one rank nothing is wrong, and on R ranks the step is R times too long."
    ),
    failed_approach=(
        "Dividing by the number of ranks once more, everywhere, is right for gradients that were summed before and "
        "makes all others R times too small: those of parameters that autograd left as they were on each rank."
    ),
    relevance=(
        "The code reads like the textbook loop and its average is called, so a review passes it. In JAX, shard_map "
        "sums the gradient of a parameter that is the same on all devices by itself, and pmap's idiom of pmean after "
        "grad is then a no-op; in Megatron-LM a norm's gradient was reduced in two places on the path with FP8 and "
        "context parallelism."
    ),
    limitations="Which parameters autograd has summed is given; in JAX it follows from the type of the value.",
    contract=(
        "Given each rank's local gradient and whether the backward pass sums it over the ranks, so that each rank "
        "then holds the sum, return the mean of the local gradients; [] without a rank."
    ),
    domain=(
        "job: a dict with `gradients`, one list of integers for each rank, all of one length, and "
        "`summed_in_backward`, true or false."
    ),
    clauses=(
        Clause(
            "summed",
            "algebraic",
            "A gradient that the backward summed is divided by the number of ranks once.",
            ("summed, two ranks", "summed, three ranks"),
        ),
        Clause("local", "algebraic", "A gradient that is still local is averaged.", ("local, two ranks",)),
        Clause(
            "copies",
            "algebraic",
            "Ranks with equal gradients give that gradient, summed before or not.",
            ("equal gradients, summed", "more ranks, summed"),
        ),
        Clause("few", "boundary", "One rank gives its own gradient, no rank [].", ("one rank, summed", "no rank")),
    ),
    promised="mean",
    separated_by="the number of collectives that a gradient goes through: replicas-summed has one, this has two",
    symptoms=(
        "DDP averages gradients of summed losses: the scale grows with the batch, and differs from one process.",
    ),
    audit_sees=(
        "Where it is so for a part of the parameters: their update is R times that of the rest. Where for all, a sum "
        "of the ranks' means, as in replicas-summed."
    ),
    audit_blind=(
        "The audit compares what goes into the collectives with what comes out of the last of them, and not what "
        "each of them does, so it cannot tell a sum that was averaged from one that was not."
    ),
    repair=(
        "Reduce each gradient in one place. Sum in the hook or helper and divide there: dist.all_reduce(p.grad); "
        "p.grad /= dist.get_world_size(), and leave that parameter out of the loop that averages; or let the loop do "
        "it and drop the helper. In JAX: differentiate the mean of the loss over the axis, without pmean behind it."
    ),
    references=(
        "https://github.com/NVIDIA/Megatron-LM/issues/1528",
        "https://github.com/jax-ml/jax/issues/3970",
    ),
    related=("replicas-summed", "reduced-again", "wrong-backward-scale", "averaged-over-ranks-twice"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Takes each rank's local gradient as one contribution of one unit."""
    return job["gradients"], Layout.from_counts([1] * len(job["gradients"]))


def sample(source):
    """Draws gradients of one width, summed in backward or not."""
    width = source.randint(1, 4)
    gradients = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 6))]
    return {"gradients": gradients, "summed_in_backward": source.choice([True, False])}


def broken(job):
    held = job["gradients"]
    if job["summed_in_backward"]:
        held = [[sum(column) for column in zip(*held, strict=True)] for _ in held]
    return [sum(column) / len(held) for column in zip(*held, strict=True)]


def attempt(job):
    held = job["gradients"]
    if job["summed_in_backward"]:
        held = [[sum(column) for column in zip(*held, strict=True)] for _ in held]
    return [sum(column) / (len(held) * len(held)) for column in zip(*held, strict=True)]


def fixed(job):
    held = job["gradients"]
    if job["summed_in_backward"]:
        summed = [sum(column) for column in zip(*held, strict=True)]
        return [value / len(held) for value in summed]
    return [sum(column) / len(held) for column in zip(*held, strict=True)]


def checks(N, solve, check):
    two, three = [[N, 2 * N], [3 * N, 4 * N]], [[N], [2 * N], [6 * N]]
    check("summed, two ranks", solve({"gradients": two, "summed_in_backward": True}), [2 * N, 3 * N])
    check("summed, three ranks", solve({"gradients": three, "summed_in_backward": True}), [3 * N])
    check("local, two ranks", solve({"gradients": two, "summed_in_backward": False}), [2 * N, 3 * N])
    check("equal gradients, summed", solve({"gradients": [[N], [N]], "summed_in_backward": True}), [N])
    check("more ranks, summed", solve({"gradients": [[4]] * (N + 1), "summed_in_backward": True}), [4])
    check("one rank, summed", solve({"gradients": [[N, -N]], "summed_in_backward": True}), [N, -N])
    check("no rank", solve({"gradients": [], "summed_in_backward": True}), [])
