"""Disjoint gradient contributions are averaged instead of summed: 1/R where 1 is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=2,
    slug="partials-averaged",
    title="Disjoint gradient contributions are averaged instead of summed",
    group="sum-or-mean",
    abstract="Ranks hold parts of one gradient; their mean is smaller than the gradient by the number of ranks.",
    root_cause="Each worker owns a disjoint parameter slice, so their partial gradients are additive contributions.",
    failure=(
        "Two ranks hold the parts 1 and 3 of a gradient of 4; the average gives 2. With eight ranks the parameter "
        "learns at an eighth of its rate, and the loss curve shows little of it."
    ),
    failed_approach=(
        "Taking one worker's part is right where that worker is the only one, or holds all there is, and drops every "
        "other part."
    ),
    relevance=(
        "Data parallelism averages, so one helper that all-reduces with a division is at hand wherever ranks share a "
        "parameter. Met with the norms of a sequence-parallel block in gpt-neox, and in the backward of DTensor's "
        "from_local() with a Partial placement. An optimizer that rescales its gradients hides the factor until "
        "clipping or weight decay meets it."
    ),
    limitations="The parts are given: which rank holds which of them, and that none is missing, is not modelled.",
    contract=(
        "Given equal-length partial gradient vectors for one parameter block, return their elementwise sum; "
        "empty input returns []."
    ),
    domain="parts: a list of lists of finite numbers, all of one length; any number of parts.",
    clauses=(
        Clause(
            "adds-up",
            "algebraic",
            "Each part is in the result once, in full.",
            ("two workers", "three partials"),
        ),
        Clause(
            "signs",
            "algebraic",
            "Parts of opposite sign cancel, coordinate by coordinate.",
            ("negative cancellation", "signed coordinates"),
        ),
        Clause("single", "boundary", "A single part is the whole gradient.", ("single worker",)),
        Clause("empty", "boundary", "Without a part there is no update: [].", ("empty block",)),
    ),
    promised="sum",
    followed=("mean", "count_weighted_over_ranks"),
    attempt_follows="first_rank",
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="whether the job promises the sum over its parts, or the mean over its replicas",
    symptoms=(
        "A gradient declared Partial(sum) is averaged: too small by the tensor-parallel size.",
        "Norm parameters move too slowly once their partial gradients are averaged rather than added up.",
    ),
    audit_sees=(
        "With --promise sum: all units weigh alike, and each 1/R of what was promised, R being the number of ranks. "
        "With the default promise such a job counts as a mean. Where all else is summed, the parameters that are "
        "averaged, by name."
    ),
    repair=(
        "Sum the parts, each a summed loss (reduction='sum'): for p in model.parameters(): dist.all_reduce(p.grad, "
        "op=dist.ReduceOp.SUM). No division by the world size, before or after; under DDP, which divides: (loss * "
        "dist.get_world_size()).backward()"
    ),
    references=(
        "https://github.com/EleutherAI/gpt-neox/pull/1259",
        "https://github.com/pytorch/pytorch/pull/115967",
    ),
    related=("replicas-summed", "gathered-part-detached", "partials-not-reduced", "group-divisor-mismatch"),
    alias="FA-99246",
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(parts):
    """Takes each part as one contribution of one unit."""
    return list(parts), Layout.from_counts([1] * len(parts))


def sample(source):
    """Draws parts of one width."""
    width = source.randint(1, 4)
    return [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 6))]


# The published scripts are made of the lines below, byte for byte.
# fmt: off
def broken(parts):
    return [sum(v[j] for v in parts)/len(parts) for j in range(len(parts[0]))] if parts else []
def attempt(parts):
    return list(parts[0]) if parts else []
def fixed(parts):
    return [sum(v[j] for v in parts) for j in range(len(parts[0]))] if parts else []
def checks(N, solve, check):
    check('two workers',solve([[N,2],[3*N,4]]),[4*N,6])
    check('negative cancellation',solve([[N],[-N],[2*N]]),[2*N])
    check('empty block',solve([]),[])
    check('single worker',solve([[N,0]]),[N,0])
    check('three partials',solve([[1],[2],[N]]),[N+3])
    check('signed coordinates',solve([[-N,2*N],[N,-N]]),[0,N])
# fmt: on
