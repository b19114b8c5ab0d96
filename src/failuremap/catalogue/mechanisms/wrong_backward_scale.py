"""A custom backward carries the wrong factor: R times, or 1/R of, what the transpose of the forward gives."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=22,
    slug="wrong-backward-scale",
    title="A custom backward carries the wrong factor",
    group="sum-or-mean",
    abstract=(
        "The backward of a collective is not the transpose of its forward; every gradient before it is off by a factor."
    ),
    root_cause=(
        "Autograd doesn't differentiate a collective by itself, so forward and backward are two pieces of code, and "
        "the factor of the one (a mean's 1/R, a bias divided among the ranks) is forgotten, or taken twice, in the "
        "other."
    ),
    failure=(
        "A mean over two ranks with the upstream gradients 2 and 4 has (2 + 4) / 2 = 3 as its gradient on both; the "
        "backward that sums gives 6. Everything behind the layer is right, everything before it doubles."
    ),
    failed_approach=(
        "Passing the rank's own gradient through agrees with the truth where all ranks compute the same loss, which is "
        "how such a layer is often tried out; with a loss of its own on each rank the other ranks' share is lost."
    ),
    relevance=(
        "No reduction of gradients repairs it, and the loss is right. Horovod's allgather summed in backward under a "
        "convention of averages, the input gradient of nanotron's row-parallel layer was right on a quarter of the "
        "values at four ranks, and torchtitan's row-wise bias trained too slowly by the tensor-parallel size. "
        "open_clip's users asked about the factor R of a gather with gradients where every rank computes the full "
        "loss, which a mean then takes back."
    ),
    limitations="One collective whose result every rank holds; scatter, gather and all-to-all are transposed alike.",
    contract=(
        "Given the forward of an all-reduce ('mean' or 'sum') and, for each rank, the gradient with respect to its "
        "copy of the result, return for each rank the gradient of the sum of all ranks' losses with respect to what "
        "it put in."
    ),
    domain=(
        "job: a dict with `forward`, 'mean' or 'sum', and `gradients`, one list of integers for each rank, all of one "
        "length."
    ),
    clauses=(
        Clause(
            "mean",
            "algebraic",
            "The backward of a mean sums the ranks' gradients and divides by their number.",
            ("mean over two ranks", "mean over four ranks", "equal gradients"),
        ),
        Clause("sum", "algebraic", "The backward of a sum sums them and does not divide.", ("sum over two ranks",)),
        Clause(
            "all-ranks",
            "algebraic",
            "A loss on one rank alone reaches what every rank put in.",
            ("loss on one rank",),
        ),
        Clause("one-rank", "boundary", "On one rank the gradient goes through as it is.", ("one rank",)),
        Clause("nothing", "boundary", "Without a rank nothing is returned.", ("no rank",)),
    ),
    promised="",
    law=(
        "For any inputs v of the ranks, the results of the forward times the gradients given add up to the same "
        "number as v times the gradients returned."
    ),
    by_signs_alone=True,
    signs=signs({Sign.UNLIKE_ONE_PROCESS, Sign.ACTIVATIONS_CROSS}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="a reference run in one process, or the dot-product test of the collective on its own",
    symptoms=(
        "The differentiable all_gather or psum gives world_size times the gradient.",
        "The backward of a collective is off by the number of workers.",
    ),
    audit_sees=(
        "Coefficients, counts and losses of a right job, and a note that names the autograd functions in which the "
        "script passes activations between the ranks, and that their backward is not checked. Beside one process "
        "(--reference) the parameters before the collective, the factor or the difference, and this mechanism."
    ),
    audit_blind=(
        "The audit takes the gradient that autograd delivers to a parameter for the rank's own, so a factor that a "
        "backward has left in it shows only against a reference (--reference), and is named there; a right backward "
        "calls the same collectives."
    ),
    repair=(
        "Make the backward the transpose: sum forward, sum backward; mean forward, sum and division backward "
        "(gradient = gradient.clone(); dist.all_reduce(gradient); return gradient / dist.get_world_size()). Test the "
        "pair: with y = forward(v) on all ranks, (y * g).sum() and (v * backward(g)).sum(), each all-reduced, agree."
    ),
    references=(
        "https://github.com/mlfoundations/open_clip/issues/616",
        "https://github.com/horovod/horovod/issues/2654",
        "https://github.com/jax-ml/jax/issues/3970",
        "https://github.com/huggingface/nanotron/pull/172",
        "https://github.com/pytorch/torchtitan/pull/4332",
        "https://github.com/unslothai/unsloth-zoo/pull/434",
    ),
    related=("gathered-part-detached", "mean-of-summed-gradient", "partials-averaged"),
    published="2026-11-30",
    modified="2026-11-30",
)


def sample(source):
    """Draws a collective and its upstream gradients."""
    width = source.randint(1, 4)
    gradients = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 5))]
    return {"forward": source.choice(["mean", "sum"]), "gradients": gradients}


def law(job, solve):
    """Compares both sides of the dot-product test, for an input of one coordinate of one rank at a time."""
    from fractions import Fraction

    gradients = job["gradients"]
    forward = Fraction(1, len(gradients) if job["forward"] == "mean" else 1)
    returned = solve(job)
    behind = [sum(forward * value for value in column) for column in zip(*gradients, strict=True)]
    before = [[Fraction(value) for value in gradient] for gradient in returned]
    close = [abs(a - b) <= Fraction(1, 2**40) for gradient in before for a, b in zip(gradient, behind, strict=True)]
    return len(before) == len(gradients) and all(close)


def broken(job):
    gradients = job["gradients"]
    summed = [sum(column) for column in zip(*gradients, strict=True)]
    return [list(summed) for _ in gradients]


def attempt(job):
    return [list(gradient) for gradient in job["gradients"]]


def fixed(job):
    gradients = job["gradients"]
    divisor = len(gradients) if job["forward"] == "mean" else 1
    summed = [sum(column) / divisor for column in zip(*gradients, strict=True)]
    return [list(summed) for _ in gradients]


def checks(N, solve, check):
    two = [[2 * N, 4], [4 * N, 8]]
    check("mean over two ranks", solve({"forward": "mean", "gradients": two}), [[3 * N, 6]] * 2)
    check("sum over two ranks", solve({"forward": "sum", "gradients": two}), [[6 * N, 12]] * 2)
    check(
        "mean over four ranks", solve({"forward": "mean", "gradients": [[N], [2 * N], [3 * N], [2 * N]]}), [[2 * N]] * 4
    )
    check("equal gradients", solve({"forward": "mean", "gradients": [[N], [N]]}), [[N]] * 2)
    check("loss on one rank", solve({"forward": "mean", "gradients": [[2 * N], [0]]}), [[N]] * 2)
    check("one rank", solve({"forward": "mean", "gradients": [[N, -N]]}), [[N, -N]])
    check("no rank", solve({"forward": "mean", "gradients": []}), [])


def edges(source):
    """Draws means over three, seven and nine ranks, which few sums divide without a remainder."""
    sizes = 3, 7, 9
    drawn = [[[source.randint(-50, 50) for _ in range(3)] for _ in range(size)] for size in sizes]
    return [{"forward": "mean", "gradients": gradients} for gradients in drawn]
