"""Gathered parts carry no gradient and the rest is averaged: 1/R where 1 is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=17,
    slug="gathered-part-detached",
    title="Gathered parts carry no gradient and the rest is averaged",
    group="sum-or-mean",
    abstract=(
        "A loss over the features of all ranks reaches each rank's own slice alone; DDP averages what should add up."
    ),
    root_cause=(
        "dist.all_gather, and an all_reduce in place, pass no gradient, so every rank computes the derivative of the "
        "same global loss by its own features alone; these parts add up, and the wrapper averages them."
    ),
    failure=(
        "Two ranks whose features bring the parts 1 and 3 of a contrastive gradient of 4 step on 2; on 64 ranks the "
        "term pulls at 1/64, beside a classification term that has kept its weight."
    ),
    failed_approach=(
        "Multiplying the whole loss by the number of ranks restores the gathered term and multiplies every term that "
        "is a plain mean over the rank's own examples, which the average had got right."
    ),
    relevance=(
        "A larger job, meant to give the contrastive loss more negatives, weakens it against all other terms. Met in "
        "DeCLUTR, lightly's and VISSL's Barlow Twins, GradCache and OpenGait's triplet loss; ms-swift's compensation "
        "covered DDP first and had to be extended to a second wrapper that averages."
    ),
    limitations=(
        "Each rank computes the full loss. Where it computes the rows of its own anchors only, the missing part is "
        "another vector and no factor brings it back."
    ),
    contract=(
        "Given, for each rank, its slice's part of the gradient of a loss over all ranks and the mean gradient of a "
        "loss over its own examples, return the sum of the first over the ranks plus the mean of the second; [] "
        "without a rank."
    ),
    domain=(
        "rows: a list of (slice, own) pairs, one for each rank; slice and own lists of integers, all of one length; "
        "the own means are over equally many examples."
    ),
    clauses=(
        Clause(
            "slices-add-up",
            "algebraic",
            "The gathered term's parts are summed over the ranks.",
            ("gathered term alone", "four ranks", "opposite slices"),
        ),
        Clause("own-average", "algebraic", "The ranks' own term is averaged.", ("own term alone",)),
        Clause("both", "algebraic", "Each term keeps its rule beside the other.", ("both terms",)),
        Clause(
            "empty-slice",
            "boundary",
            "A rank whose slice brings nothing still counts in the mean of the other term.",
            ("a slice of zeros",),
        ),
        Clause("few", "boundary", "One rank's terms are added; no rank gives [].", ("one rank", "no rank")),
    ),
    promised="",
    law=(
        "With the own term zero the update is the sum of the slices, with the slices zero it is the mean of the own "
        "gradients, and it is additive in the two."
    ),
    by_signs_alone=True,
    signs=signs({Sign.GATHERED_WITHOUT_GRADIENT}, {Sign.UNLIKE_ONE_PROCESS, Sign.CROSSES_UNSEEN}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="a reference in one process, where nothing has to be gathered",
    symptoms=(
        "The contrastive (CLIP, SimCLR) gradient is 1/N too small with all_gather over ranks.",
        "Gathered features carry no gradient: worse retrieval with several GPUs.",
        "InfoNCE in a multi-GPU job is scaled wrong.",
    ),
    audit_sees=(
        "Where all ranks compute one loss on the same targets, with a gradient of their own each, over as many rows "
        "and classes as they gather while autograd records and doesn't see it: a mean of what should add up. Of rows "
        "of a rank's own anchors, or gathered under no_grad(), a right mean, and a note at most."
    ),
    repair=(
        "Gather with a function whose backward sums: forward dist.all_gather, backward gradients = "
        "torch.stack(gradients); dist.all_reduce(gradients); return gradients[dist.get_rank()]. DDP's mean is then "
        "right for every term. Or multiply the gathered term alone: (own_loss + dist.get_world_size() * "
        "gathered_loss).backward()."
    ),
    references=(
        "https://github.com/JohnGiorgi/DeCLUTR/pull/212",
        "https://github.com/facebookresearch/vissl/pull/230",
        "https://github.com/lightly-ai/lightly/issues/1977",
        "https://github.com/ShiqiYu/OpenGait/issues/36",
        "https://github.com/luyug/GradCache/issues/25",
        "https://github.com/modelscope/ms-swift/pull/10150",
    ),
    related=("partials-averaged", "wrong-backward-scale", "compensation-without-cause", "aux-term-other-denominator"),
    published="2026-11-30",
    modified="2026-11-30",
)


def sample(source):
    """Draws rows of one width."""
    width = source.randint(1, 4)
    ranks = range(source.randint(1, 6))
    slices, own = ([[source.randint(-50, 50) for _ in range(width)] for _ in ranks] for _ in range(2))
    return list(zip(slices, own, strict=True))


def law(rows, solve):
    """Looks at the two terms one at a time, and at both together."""
    from fractions import Fraction

    zeros = [0] * len(rows[0][0])
    gathered = [Fraction(value) for value in solve([(part, zeros) for part, _ in rows])]
    own = [Fraction(value) for value in solve([(zeros, part) for _, part in rows])]
    both = [Fraction(value) for value in solve(rows)]
    summed = [sum(column) for column in zip(*(part for part, _ in rows), strict=True)]
    means = [Fraction(sum(column), len(rows)) for column in zip(*(part for _, part in rows), strict=True)]
    pairs = [*zip(gathered, summed, strict=True), *zip(own, means, strict=True)]
    pairs += [(whole, a + b) for whole, a, b in zip(both, gathered, own, strict=True)]
    return all(abs(seen - right) <= Fraction(1, 2**40) for seen, right in pairs)


def broken(rows):
    losses = [[a + b for a, b in zip(part, own, strict=True)] for part, own in rows]
    return [sum(column) / len(rows) for column in zip(*losses, strict=True)]


def attempt(rows):
    rank_count = len(rows)
    losses = [[rank_count * (a + b) for a, b in zip(part, own, strict=True)] for part, own in rows]
    return [sum(column) / rank_count for column in zip(*losses, strict=True)]


def fixed(rows):
    rank_count = len(rows)
    losses = [[rank_count * a + b for a, b in zip(part, own, strict=True)] for part, own in rows]
    return [sum(column) / rank_count for column in zip(*losses, strict=True)]


def checks(N, solve, check):
    check("gathered term alone", solve([([N, 2 * N], [0, 0]), ([3 * N, 0], [0, 0])]), [4 * N, 2 * N])
    check("own term alone", solve([([0], [N]), ([0], [3 * N])]), [2 * N])
    check("both terms", solve([([N], [4 * N]), ([2 * N], [2 * N])]), [6 * N])
    check("four ranks", solve([([N], [4])] * 4), [4 * N + 4])
    check("opposite slices", solve([([N], [0]), ([-N], [0])]), [0])
    check("a slice of zeros", solve([([N], [2]), ([0], [4])]), [N + 3])
    check("one rank", solve([([N], [2 * N])]), [3 * N])
    check("no rank", solve([]), [])
