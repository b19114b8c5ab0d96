"""Replicated parameters keep only their own rank's partial gradient: 1 on the rank itself, 0 on the others."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=62,
    slug="partials-not-reduced",
    title="Replicated parameters keep only their own rank's partial gradient",
    group="replica-agreement",
    abstract=(
        "A parameter that all ranks of a tensor- or sequence-parallel group hold in full sees a part of the work on "
        "each, and each rank steps on its part."
    ),
    root_cause=(
        "Where ranks share the work on one batch, the gradient of what they hold in full is a partial sum on each. "
        "Nothing adds the parts: the parameter lacks the flag, the hook or the placement that asks for it."
    ),
    failure=(
        "Parts 1, 2 and 4 of one gradient move the three copies by 1, 2 and 4 where all should move by 7. The copies "
        "drift apart, and a checkpoint keeps one of them."
    ),
    failed_approach=(
        "Broadcasting rank 0's part makes the copies agree, so a check of the replicas is satisfied; the parts of the "
        "other ranks are lost, and the shorter step is the same on all."
    ),
    relevance=(
        "Norms, routers, biases and the replicated factor of a low-rank adapter are a small share of the parameters, "
        "so the loss falls at first and goes wrong late. It was met in Megatron-LM and bridges to it (a parameter "
        "without the sequence_parallel flag), in a Megatron-style adapter (all 18 elements of its replicated factor "
        "differed), in TransformerEngine, which leaves the sum to the caller, and in mixture-of-experts routers of "
        "torchtitan (to_local() without grad_placements)."
    ),
    limitations=(
        "One parameter and one group; that the same gradient is also averaged over data-parallel ranks is left out."
    ),
    contract=(
        "Given the partial gradients that the ranks of a group computed for one replicated parameter, and a rank, "
        "return what that rank steps on: the elementwise sum of all parts, the same on every rank."
    ),
    domain=(
        "group: {'rank': an index into the parts, 'partials': one or more lists of finite numbers, all of one length}."
    ),
    clauses=(
        Clause(
            "sum-of-parts",
            "algebraic",
            "The result is the sum over the group, not a mean and not one part.",
            ("two ranks", "last of three ranks", "parts that cancel"),
        ),
        Clause(
            "same-everywhere",
            "algebraic",
            "Every rank gets the same result.",
            ("seen from rank 0", "seen from rank 1"),
        ),
        Clause(
            "idle-part",
            "boundary",
            "A rank whose share of the work did not touch the parameter gets the others' sum.",
            ("own part is zero", "other parts are zero"),
        ),
        Clause("single", "boundary", "A group of one rank returns its part.", ("group of one",)),
    ),
    promised="sum",
    followed=("own_rank",),
    attempt_follows="first_rank",
    by_signs_alone=True,
    signs=signs(
        {Sign.PARTIAL_ONLY, Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS},
        {Sign.ACTIVATIONS_CROSS, Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS, Sign.NO_DDP},
    ),
    separated_by="whether activations cross the ranks in forward: then the ranks' gradients are parts, not replicas",
    symptoms=(
        "LayerNorm weights drift apart between tensor-parallel ranks.",
        "Sequence-parallel norm or router gradients are not all-reduced over the tp group.",
    ),
    audit_sees=(
        "On the parameters concerned, by name, each rank's own part of the gradient, where DTensors say that the ranks "
        "run one model together, or the script's own functions pass activations between them, without DDP. Where these "
        "are one layer of a data-parallel job (a norm over all ranks), the parameter is in truth one without a hook."
    ),
    repair=(
        "Add the parts over the tensor- or sequence-parallel group, before the gradients are averaged over the "
        "replicas: dist.all_reduce(p.grad, group=tp_group). With DTensor, give the module a plan, SequenceParallel() "
        "for a norm, or say what the gradient is where a tensor leaves it: x.to_local(grad_placements=[Partial()]); in "
        "Megatron-LM, set p.sequence_parallel = True."
    ),
    references=(
        "https://github.com/NVIDIA/Megatron-LM/issues/1446",
        "https://github.com/ISEEKYAN/Megatron-LM/pull/131",
        "https://github.com/NVIDIA/TransformerEngine/issues/441",
        "https://github.com/pytorch/torchtitan/issues/1805",
        "https://github.com/pytorch/torchtitan/pull/2416",
        "https://github.com/modelscope/mcore-bridge/pull/173",
    ),
    related=("param-without-hook", "partials-averaged", "tied-copies-not-summed", "never-synchronised"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(group):
    """Takes each part as one contribution of one unit, seen by the group's rank."""
    return group["partials"], Layout.from_counts([1] * len(group["partials"])).seen_by(group["rank"])


def sample(source):
    """Draws parts of one width, and a rank of the group."""
    width, size = source.randint(1, 4), source.randint(1, 6)
    partials = [[source.randint(-50, 50) for _ in range(width)] for _ in range(size)]
    return {"rank": source.randrange(size), "partials": partials}


def broken(group):
    return list(group["partials"][group["rank"]])


def attempt(group):
    return list(group["partials"][0])


def fixed(group):
    return [sum(column) for column in zip(*group["partials"], strict=True)]


def checks(N, solve, check):
    check("two ranks", solve({"rank": 0, "partials": [[N, 2], [3 * N, 4]]}), [4 * N, 6])
    check("last of three ranks", solve({"rank": 2, "partials": [[N], [2 * N], [4 * N]]}), [7 * N])
    check("parts that cancel", solve({"rank": 1, "partials": [[N, N], [-N, N]]}), [0, 2 * N])
    check("seen from rank 0", solve({"rank": 0, "partials": [[N, 1], [1, N]]}), [N + 1, N + 1])
    check("seen from rank 1", solve({"rank": 1, "partials": [[N, 1], [1, N]]}), [N + 1, N + 1])
    check("own part is zero", solve({"rank": 1, "partials": [[N], [0]]}), [N])
    check("other parts are zero", solve({"rank": 0, "partials": [[N, -N], [0, 0]]}), [N, -N])
    check("group of one", solve({"rank": 0, "partials": [[N, 2 * N]]}), [N, 2 * N])


def edges(source):
    """Draws a parameter of no element on groups of one to nine ranks, and the same parts seen from each rank."""
    parts = [[source.randint(-50, 50) for _ in range(3)] for _ in range(4)]
    nothing = [{"rank": size - 1, "partials": [[] for _ in range(size)]} for size in (1, 2, 3, 5, 9)]
    return [*nothing, *({"rank": rank, "partials": parts} for rank in range(4))]
