"""The gradient norm misses the other ranks' shards: each is scaled by its own min(1, C/|g_s|)."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from fractions import Fraction

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=11,
    slug="norm-misses-shards",
    title="The gradient norm misses other ranks' shards",
    group="norms",
    abstract="Each rank clips the shard that it holds by the norm of that shard, so one update has several factors.",
    root_cause=(
        "A norm is taken of what the rank holds, and the squares of the other shards never arrive: a local tensor is "
        "read where the whole gradient is meant."
    ),
    failure=(
        "The gradient [3, 4] lies on two ranks, with a limit of 2.5. Both shards are longer and are cut to 2.5: the "
        "update is [2.5, 2.5] of norm 3.5, where [1.5, 2] is right. Its direction has turned by 8 degrees."
    ),
    failed_approach=(
        "Averaging the local norms over the ranks gives all shards one factor, so the direction is right again. The "
        "norm is too small, by up to the number of ranks, and clipping starts too late."
    ),
    relevance=(
        "It comes with sharded optimizers: FSDP, ZeRO, experts on ranks of their own. The more ranks, the shorter each "
        "shard, until nothing is clipped any more. Met in AReaL, whose clipping depended on the number of FSDP ranks, "
        "and in SpecForge."
    ),
    limitations="Every element lies on one rank; parameters that several ranks hold in full are another mechanism.",
    contract=(
        "Given the shards of one gradient and a limit, return all shards, scaled by one factor min(1, limit/norm), "
        "where norm is that of the whole gradient."
    ),
    domain=(
        "step: a dictionary of limit, a number above 0, and shards, a list with one list of finite numbers for each "
        "rank; a shard may be empty."
    ),
    clauses=(
        Clause(
            "whole-norm",
            "algebraic",
            "The norm is the root of the sum of all shards' squares.",
            ("two shards", "many short shards", "an empty shard"),
        ),
        Clause(
            "one-factor",
            "algebraic",
            "All shards get the same factor, those below the limit as well.",
            ("one shard is zero", "a long and a short shard"),
        ),
        Clause(
            "below-the-limit",
            "boundary",
            "A gradient no longer than the limit stays as it is.",
            ("below the limit",),
        ),
        Clause(
            "one-rank",
            "boundary",
            "On one rank it is ordinary clipping, and without a rank nothing is returned.",
            ("one rank", "no ranks"),
        ),
    ),
    promised="",
    law="All elements are scaled by one factor, that of the whole gradient's norm.",
    by_signs_alone=True,
    signs=signs({Sign.SHARDS_SCALED_APART}),
    separated_by="a run without clipping, or on one rank",
    symptoms=(
        "Each rank clips its FSDP shard by the shard's own norm.",
        "clip_grad_norm_ on sharded parameters uses the partial, local norm.",
    ),
    audit_sees=(
        "With FSDP2, shards of one update that have factors of their own, one for each rank. Where whole parameters "
        "are dealt out to the ranks, as in ZeRO, different coefficients, which get this name where they are those of "
        "torch's clipping functions."
    ),
    repair=(
        "Sum the squares over all ranks that hold shards before the root: square = "
        "torch.nn.utils.get_total_norm(local_shards).square(); dist.all_reduce(square, group=shard_group); "
        "torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, square.sqrt()). With FSDP2, "
        "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm) does it; what it returns is a DTensor, and its "
        "full_tensor() is the norm to log."
    ),
    references=(
        "https://github.com/sgl-project/SpecForge/pull/663",
        "https://github.com/areal-project/AReaL/issues/312",
        "https://github.com/pytorch/pytorch/issues/170862",
    ),
    related=("norm-counts-copies", "clip-in-wrong-place", "partials-not-reduced"),
    published="2026-11-30",
    modified="2026-11-30",
)


def broken(step):
    import math

    def clip(shard):
        norm = math.sqrt(math.fsum(value * value for value in shard))
        return [value * step["limit"] / norm for value in shard] if norm > step["limit"] else shard

    return [clip(shard) for shard in step["shards"]]


def attempt(step):
    import math

    norms = [math.sqrt(math.fsum(value * value for value in shard)) for shard in step["shards"]]
    norm = math.fsum(norms) / max(len(norms), 1)
    if norm <= step["limit"]:
        return step["shards"]
    return [[value * step["limit"] / norm for value in shard] for shard in step["shards"]]


def fixed(step):
    import math

    norm = math.sqrt(math.fsum(value * value for shard in step["shards"] for value in shard))
    if norm <= step["limit"]:
        return step["shards"]
    return [[value * step["limit"] / norm for value in shard] for shard in step["shards"]]


def checks(N, solve, check):
    def clipped(limit, *shards):
        return solve({"limit": limit, "shards": list(shards)})

    check("two shards", clipped(2.5 * N, [3 * N], [4 * N]), [[1.5 * N], [2 * N]])
    check("many short shards", clipped(N, *[[N]] * 4), [[N / 2]] * 4)
    check("an empty shard", clipped(2.5 * N, [3 * N], [], [-4 * N]), [[1.5 * N], [], [-2 * N]])
    check("one shard is zero", clipped(5 * N, [6 * N, 8 * N], [0, 0]), [[3 * N, 4 * N], [0, 0]])
    check("a long and a short shard", clipped(6.5 * N, [12 * N], [5 * N]), [[6 * N], [2.5 * N]])
    check("below the limit", clipped(5 * N, [3 * N], [4 * N]), [[3 * N], [4 * N]])
    check("one rank", clipped(2.5 * N, [3 * N, 4 * N]), [[1.5 * N, 2 * N]])
    check("no ranks", clipped(N), [])


def sample(source):
    """Draws shards, and a limit that is below the norm as often as not."""
    shards = [[source.randint(-20, 20) for _ in range(source.randint(0, 3))] for _ in range(source.randint(1, 5))]
    return {"limit": source.randint(1, 40), "shards": shards}


def law(step, solve):
    """Compares signs and squares with those of one factor, in fractions; the bound is for a root and two quotients."""
    given = [value for shard in step["shards"] for value in shard]
    square = sum(value * value for value in given)
    factor = min(Fraction(1), Fraction(step["limit"] ** 2, square)) if square else 1
    result = solve(step)
    clipped = [Fraction(value) for shard in result for value in shard]
    return [len(shard) for shard in result] == [len(shard) for shard in step["shards"]] and all(
        after * before >= 0 and abs(after * after - before * before * factor) <= before * before * Fraction(1, 2**40)
        for after, before in zip(clipped, given, strict=True)
    )


def exact(step, root):
    """Does what `fixed` does, with an exact root."""
    values = [value for shard in step["shards"] for value in shard]
    norm = root(sum(value * value for value in values)) if values else 0
    if norm <= step["limit"]:
        return step["shards"]
    return [[value * step["limit"] / norm for value in shard] for shard in step["shards"]]


def edges(source):
    """Draws limits far beyond the norm, in millions and below 1, also between it and its square; and empty shards."""
    shards = [[source.randint(-50, 50) * 10**7 for _ in range(width)] for width in (2, 0, 3)]
    return [
        {"limit": 10**12, "shards": shards},
        {"limit": 10**7, "shards": [*shards, [10**10]]},
        {"limit": source.randint(1, 9), "shards": [[], []]},
        *({"limit": limit, "shards": shards} for limit in (0.125, 0.7, 1.5, 1e-4, 1e-9)),
        {"limit": 0.25, "shards": [[0.375], [0.0]]},
        {"limit": 1, "shards": [[3e100], [1.0, -4e100]]},
    ]
