"""The gradient norm counts replicated parameters once for each rank that holds them."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from fractions import Fraction

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=10,
    slug="norm-counts-copies",
    title="The gradient norm counts replicated parameters once per rank",
    group="norms",
    abstract="Squares are summed over ranks that hold copies of one gradient, and clipping is too strong.",
    root_cause=(
        "The squares of shards add up over the ranks, those of copies do not, and the code can't tell which are which: "
        "a flag is missing, or was lost on the way."
    ),
    failure=(
        "Two ranks hold one gradient of norm 28.28 in full. The sum of their squares gives 40, and a limit of 20 "
        "shortens the update to 14.14 instead of 20."
    ),
    failed_approach=(
        "Leaving replicated parameters out of the norm makes it too small: their gradients are then scaled by a "
        "factor in which they have no part, and a spike of theirs passes unclipped."
    ),
    relevance=(
        "The factor is up to the root of the number of ranks, so it changes with the parallel layout, and every "
        "learning rate and limit tuned on one layout is off on another. Met in PyTorch's FSDP without sharding, in "
        "Megatron-FSDP, TransformerEngine and NeMo-RL."
    ),
    limitations="The placement of each block is given; to find it out from the tensors is the real difficulty.",
    contract=(
        "Given the blocks of each rank, return the norm of the whole gradient, as a list of one number: each shard "
        "counts, and of the copies of one name one counts. Without any block it is 0."
    ),
    domain=(
        "ranks: a list of lists of (name, placement, values) blocks; placement is 'shard' or 'copy'; values a list of "
        "finite numbers; copies of one name are equal, and need not be on all ranks."
    ),
    clauses=(
        Clause(
            "copies-once",
            "algebraic",
            "However many ranks hold a copy, its squares are counted once.",
            ("shards and a copy", "copies on all ranks", "a copy on the first and last stage", "all ones"),
        ),
        Clause("shards-add", "algebraic", "The squares of all shards are added up.", ("shards alone",)),
        Clause("one-rank", "boundary", "On one rank it is the norm of all blocks.", ("one rank",)),
        Clause("nothing", "boundary", "Without any block the norm is 0.", ("no blocks",)),
    ),
    promised="",
    law="The square of the norm is the sum of the squares of all logical elements, each counted once.",
    by_signs_alone=True,
    signs=signs({Sign.COPIES_IN_NORM}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="a run without clipping, or on one rank",
    symptoms=(
        "The gradient norm is too large by the root of the number of ranks, so clipping is too strong.",
        "The norm counts each replicated parameter once for every copy, as with tied or tensor-parallel weights.",
    ),
    audit_sees=(
        "Where torch's functions clip and all of the gradient is copies: a norm that is the update's own times the "
        "root of a number of ranks, over which the script adds something up before the step. Where a part is sharded, "
        "or the script multiplies by the factor itself, equal weights and a factor below 1 at the steps concerned."
    ),
    repair=(
        "Sum over the ranks what is sharded, and add the rest once: square = sum(g.square().sum() for g in shards); "
        "dist.all_reduce(square, group=shard_group); square += sum(g.square().sum() for g in copies). With DTensor, "
        "torch.nn.utils.get_total_norm(gradients) follows the placements, and its full_tensor() is the norm. Try it "
        "on a gradient of ones: the norm must be the root of the number of parameters."
    ),
    references=(
        "https://github.com/pytorch/pytorch/pull/88955",
        "https://github.com/NVIDIA-NeMo/RL/pull/3788",
        "https://github.com/ROCm/TransformerEngine/pull/715",
        "https://github.com/NVIDIA/Megatron-LM/pull/7227",
        "https://github.com/mindspore-ai/hyper-parallel/issues/279",
    ),
    related=("norm-misses-shards", "clip-in-wrong-place", "replicas-summed", "tied-copies-not-summed"),
    published="2026-11-30",
    modified="2026-11-30",
)


def broken(ranks):
    import math

    squares = [value * value for blocks in ranks for _, _, values in blocks for value in values]
    return [math.sqrt(math.fsum(squares))]


def attempt(ranks):
    import math

    shards = [values for blocks in ranks for _, placement, values in blocks if placement == "shard"]
    return [math.sqrt(math.fsum(value * value for values in shards for value in values))]


def fixed(ranks):
    import math

    counted = []
    copies = {}
    for blocks in ranks:
        for name, placement, values in blocks:
            if placement == "shard":
                counted.append(values)
            else:
                copies[name] = values
    counted.extend(copies.values())
    return [math.sqrt(math.fsum(value * value for values in counted for value in values))]


def checks(N, solve, check):
    first, second = ("weight", "shard", [2 * N]), ("weight", "shard", [3 * N])
    bias = ("bias", "copy", [6 * N])
    check("shards and a copy", solve([[first, bias], [second, bias]]), [7 * N])
    check("copies on all ranks", solve([[("scale", "copy", [3 * N, -4 * N])]] * (N + 1)), [5 * N])
    check("a copy on the first and last stage", solve([[bias], [first, second], [bias]]), [7 * N])
    check("all ones", solve([[("weight", "shard", [N] * 8), ("scale", "copy", [N] * 9)]] * 2), [5 * N])
    check("shards alone", solve([[("weight", "shard", [3 * N])], [("weight", "shard", [0, 4 * N])]]), [5 * N])
    check("one rank", solve([[first, second, bias]]), [7 * N])
    check("no blocks", solve([[]] * N), [0])


def sample(source):
    """Draws ranks with a shard each, and copies on some of them."""

    def values():
        return [source.randint(-9, 9) for _ in range(source.randint(1, 4))]

    ranks = [[("weight", "shard", values())] for _ in range(source.randint(1, 4))]
    for name in ("bias", "scale"):
        copy = (name, "copy", values())
        for blocks in ranks:
            if source.random() < 0.7:
                blocks.append(copy)
    return ranks


def law(ranks, solve):
    """Squares the result; the bound is for one sum and one root, each rounded once."""
    blocks = {
        (name, placement, index if placement == "shard" else 0): values
        for index, held in enumerate(ranks)
        for name, placement, values in held
    }
    square = sum(value * value for values in blocks.values() for value in values)
    (norm,) = solve(ranks)
    return abs(Fraction(norm) ** 2 - square) <= square * Fraction(1, 2**50)


def exact(ranks, root):
    """Takes the exact root over the shards and one of the copies of each name."""
    blocks = [block for held in ranks for block in held]
    shards = [values for _, placement, values in blocks if placement == "shard"]
    copies = {name: values for name, placement, values in blocks if placement == "copy"}
    values = [value for held in (*shards, *copies.values()) for value in held]
    return [root(sum(value * value for value in values)) if values else 0]


def edges(source):
    """Draws many names, one of them a shard here and a copy there, equal values, none at all, and far larger ones."""

    def values(count):
        return [source.randint(-9, 9) or 5 for _ in range(count)]

    names = [f"layers.{index}.norm.weight" for index in range(8)]
    many = [[(name, "copy", [index + 1]) for index, name in enumerate(names)] for _ in range(3)]
    shard, copy = ("weight", "shard", values(2)), ("weight", "copy", values(3))
    alike = values(2)
    equal = [[("a", "shard", alike), ("b", "shard", alike)], [("a", "shard", alike), ("c", "copy", alike)]]
    return [
        many,
        [[*blocks[:4], shard] for blocks in many],
        [[shard, copy], [copy], [shard]],
        [*equal, [("d", "copy", alike), ("c", "copy", alike)]],
        [[], [("a", "shard", []), ("b", "copy", [])]],
        [[("a", "shard", [3e100, source.randint(1, 9)])], [("b", "copy", [4e100])]],
    ]
