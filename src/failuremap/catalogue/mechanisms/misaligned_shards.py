"""Slices of different parameters are added together: each element holds another parameter's gradient."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=28,
    slug="misaligned-shards",
    title="Slices of different parameters are added together",
    group="group-sizes",
    abstract="Ranks lay their gradients out differently in one buffer, and the reduction adds what lies at one place.",
    root_cause=(
        "A collective knows offsets and no names. What a rank puts at an offset depends on the rank: which parameters "
        "had a gradient, how a stage or a shard is laid out, or which group the reduction runs over."
    ),
    failure=(
        "Rank 0 used expert a and packs its gradient [1, 2]; rank 1 used b and packs [3, 4]. The sum [4, 6] is "
        "unpacked as a's gradient on rank 0 and as b's on rank 1, where a should get [1, 2] and b [3, 4] on both."
    ),
    failed_approach=(
        "Filling in absent gradients only where the buffers differ in length cures the crash and the hang. Experts of "
        "one size give buffers of one length, so the case that runs silently stays."
    ),
    relevance=(
        "The loss falls for a while, since part of the gradient still arrives where it belongs. Met with conditional "
        "parameters under FSDP2, with the shared embedding of Megatron-FSDP, whose stages lay their buffers out "
        "differently, and with reductions of experts over the wrong group of ranks in Megatron-LM. Gradients of all "
        "ones make it plain: their norm must be the square root of the number of elements."
    ),
    limitations=(
        "The result is the first rank's view; real ranks unpack different views and drift apart as well. Buffers of "
        "different lengths are padded with zeros, where real ones raise, hang or read past the end."
    ),
    contract=(
        "Given the sizes of all parameters, in order, and for each rank the gradients that it has, by name, return "
        "the aligned elementwise sum over the ranks, absent gradients being zeros; [] without a rank."
    ),
    domain=(
        "job: a dict with `sizes`, parameter name -> number of elements, and `ranks`, one dict for each rank, "
        "parameter name -> list of that many integers, its names a part of those of `sizes` and in their order."
    ),
    clauses=(
        Clause(
            "by-name",
            "algebraic",
            "An element of the result holds gradients of that element alone.",
            ("experts of one size", "shared layer behind the experts", "all ones"),
        ),
        Clause(
            "unequal", "algebraic", "Buffers of different lengths are aligned too.", ("experts of different sizes",)
        ),
        Clause("present", "algebraic", "Ranks that have all gradients are summed.", ("all present",)),
        Clause(
            "absent",
            "boundary",
            "What no rank has is zero, and a rank without any gradient changes nothing.",
            ("unused by all", "a rank without gradients"),
        ),
        Clause("nothing", "boundary", "Without a rank there is no update: [].", ("no rank",)),
    ),
    promised="sum",
    by_signs_alone=True,
    signs=signs({Sign.OTHER_PARAMETER_ADDED}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="an update that the gradients of other parameters explain, and a parameter's own do not",
    symptoms=(
        "The ranks' lists of gradients differ, so an all_reduce pairs the wrong tensors.",
        "Expert gradients are scrambled for one topology; unrelated gradients are added.",
    ),
    audit_sees=(
        "Parameters, by name, whose update holds another parameter's gradient from some ranks in place of their own, "
        "and, where ranks unpack different views, replicas that drift apart. An update is held against the gradients "
        "of parameters of as many elements; what lies across the border of two is told without this name."
    ),
    repair=(
        "Pack the same parameters in the same order on every rank, with zeros for what is absent: for p in "
        "parameters: p.grad = torch.zeros_like(p) if p.grad is None else p.grad, before torch.cat([p.grad.flatten() "
        "for p in parameters]). Check once that dist.all_gather_object of [(name, p.numel()), ...] is equal on all "
        "ranks of the group."
    ),
    references=(
        "https://github.com/NVIDIA/Megatron-LM/pull/6500",
        "https://github.com/pytorch/pytorch/pull/170667",
        "https://github.com/NVIDIA/Megatron-LM/pull/6080",
        "https://github.com/NVIDIA/Megatron-LM/pull/5916",
    ),
    related=("result-lost", "param-without-hook", "unused-on-last-microbatch", "tied-copies-not-summed"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Lays each rank's gradients out in full, zeros where it has none."""
    full = [
        [value for name, size in job["sizes"].items() for value in rank.get(name, [0] * size)] for rank in job["ranks"]
    ]
    return full, Layout.from_counts([1] * len(full))


def sample(source):
    """Draws a shared layer and two experts, of which each rank has used one or both."""
    sizes = {"a": source.randint(1, 3), "b": source.randint(1, 3), "shared": source.randint(1, 2)}
    used = [source.choice([("a",), ("b",), ("a", "b")]) for _ in range(source.randint(1, 4))]
    return {
        "sizes": sizes,
        "ranks": [{n: [source.randint(-50, 50) for _ in range(sizes[n])] for n in (*own, "shared")} for own in used],
    }


def broken(job):
    from itertools import zip_longest

    sizes, ranks = job["sizes"], job["ranks"]
    if not ranks:
        return []
    buffers = [[value for gradient in rank.values() for value in gradient] for rank in ranks]
    summed = iter([sum(column) for column in zip_longest(*buffers, fillvalue=0)])
    unpacked = {name: [next(summed) for _ in range(sizes[name])] for name in ranks[0]}
    return [value for name, size in sizes.items() for value in unpacked.get(name, [0] * size)]


def attempt(job):
    sizes, ranks = job["sizes"], job["ranks"]
    if not ranks:
        return []
    lengths = {sum(len(gradient) for gradient in rank.values()) for rank in ranks}
    if len(lengths) > 1:
        ranks = [{name: rank.get(name, [0] * size) for name, size in sizes.items()} for rank in ranks]
    buffers = [[value for gradient in rank.values() for value in gradient] for rank in ranks]
    summed = iter([sum(column) for column in zip(*buffers, strict=True)])
    unpacked = {name: [next(summed) for _ in range(sizes[name])] for name in ranks[0]}
    return [value for name, size in sizes.items() for value in unpacked.get(name, [0] * size)]


def fixed(job):
    sizes, ranks = job["sizes"], job["ranks"]
    aligned = [[value for name, size in sizes.items() for value in rank.get(name, [0] * size)] for rank in ranks]
    return [sum(column) for column in zip(*aligned, strict=True)]


def checks(N, solve, check):
    even, uneven = {"a": 2, "b": 2}, {"a": 2, "b": 1}
    a, b = {"a": [N, 2 * N]}, {"b": [3 * N, 4 * N]}
    check("all present", solve({"sizes": even, "ranks": [a | b, a | b]}), [2 * N, 4 * N, 6 * N, 8 * N])
    check("experts of one size", solve({"sizes": even, "ranks": [a, b]}), [N, 2 * N, 3 * N, 4 * N])
    check("experts of different sizes", solve({"sizes": uneven, "ranks": [a, {"b": [3 * N]}]}), [N, 2 * N, 3 * N])
    behind = [{"a": [N, N], "shared": [5]}, {"b": [N, N], "shared": [7]}]
    check("shared layer behind the experts", solve({"sizes": {**even, "shared": 1}, "ranks": behind}), [N] * 4 + [12])
    check("all ones", solve({"sizes": {"a": N, "b": N}, "ranks": [{"a": [1] * N}, {"b": [1] * N}]}), [1] * (2 * N))
    check("unused by all", solve({"sizes": even, "ranks": [b, b]}), [0, 0, 6 * N, 8 * N])
    check("a rank without gradients", solve({"sizes": even, "ranks": [a, {}]}), [N, 2 * N, 0, 0])
    check("no rank", solve({"sizes": even, "ranks": []}), [])


def edges(source):
    """Draws five parameters of unequal sizes, and eight of a deep model, of which each rank has others."""
    sizes = {"e": 2, "a": 1, "d": 3, "c": 1, "b": 2}
    used = [("e", "c"), ("a", "d", "b"), (), ("e", "a", "d", "c", "b"), ("b",)]
    ranks = [{name: [source.randint(-50, 50) for _ in range(sizes[name])] for name in own} for own in used]
    many = {f"layers.{index}.{kind}": 1 + index % 2 for index in (10, 9, 2) for kind in ("weight", "bias")} | {
        "z": 0,
        "b": 1,
    }
    held = [list(many)[start::step] for start, step in ((0, 1), (1, 2), (0, 3), (5, 1))]
    rows = [{name: [source.randint(-50, 50) for _ in range(many[name])] for name in own} for own in held]
    jobs = [{"sizes": sizes, "ranks": ranks}, {"sizes": sizes, "ranks": ranks[:1]}, {"sizes": {}, "ranks": [{}, {}]}]
    return [*jobs, {"sizes": many, "ranks": rows}, {"sizes": many, "ranks": rows[1:3]}]
