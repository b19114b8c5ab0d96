"""An average over ranks is divided by the tensor's number of elements: 1/numel where 1/R is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=23,
    slug="average-divides-by-elements",
    title="An average over ranks is divided by the tensor's number of elements",
    group="sum-or-mean",
    abstract="A backend averages by a sum and a division by the wrong number; each tensor gets a factor of its own.",
    root_cause=(
        "A library of collectives sums and leaves the average to a division after it, and the function that divides "
        "is handed the tensor, whose size is at hand, and not the group, whose size is meant."
    ),
    failure=(
        "Two ranks with [1, 2, 3] and [3, 4, 5] get [4, 6, 8] / 3 where [2, 3, 4] is right. A bias of 10 elements then "
        "moves ten times as far as a weight of 100, and a tensor of as many elements as there are ranks is right."
    ),
    failed_approach=(
        "Without the division the average is a sum: the same for all tensors, R times too large, and no better than "
        "before for the ranks' metrics and the buffers that take the same way."
    ),
    relevance=(
        "The caller asked for an average and has no reason to doubt it. torchcomms' Gloo backend divided by numel(); "
        "Gloo in torch.distributed, and a direct reduce-scatter in RCCL, once returned the sum for AVG; small tests "
        "with two elements on two ranks pass. FSDP2 asks for AVG by default (in float32 and bfloat16), so a whole "
        "model hangs on it."
    ),
    limitations="Integer tensors, where a division also has to say how it rounds, are left out.",
    contract=(
        "Given one tensor for each rank, as a flat list, return the elementwise mean over the ranks; [] without a rank."
    ),
    domain="tensors: a list of lists of integers, all of one length, which may be 0; one list for each rank.",
    clauses=(
        Clause(
            "mean-over-ranks",
            "algebraic",
            "Each element is the sum over the ranks divided by their number.",
            ("two ranks, three elements", "two ranks, one element", "four ranks, two elements"),
        ),
        Clause(
            "any-size",
            "algebraic",
            "More elements change no element's average.",
            ("larger tensor", "as many elements as ranks"),
        ),
        Clause("one-rank", "boundary", "One rank's tensor is its own average.", ("one rank",)),
        Clause("empty", "boundary", "An empty tensor stays empty, and no rank gives [].", ("empty tensor", "no rank")),
    ),
    promised="mean",
    attempt_follows="sum",
    by_signs_alone=True,
    signs=signs({Sign.DIVIDED_BY_ELEMENTS}),
    separated_by="tensors of different sizes: here each has its own factor, one over its number of elements",
    symptoms=("The average divides by numel() of the tensor.",),
    audit_sees=(
        "Units that weigh alike in every tensor, with a factor for each tensor in proportion to one over its size, "
        "where there are three sizes at least; an average that is a plain sum is named replicas-summed."
    ),
    repair=(
        "Ask for the sum and divide by the group yourself: dist.all_reduce(p.grad, op=dist.ReduceOp.SUM); p.grad /= "
        "dist.get_world_size(). Before a job relies on AVG, average torch.full((3,), float(dist.get_rank())) once and "
        "compare it with (dist.get_world_size() - 1) / 2, for every collective that it uses."
    ),
    references=(
        "https://github.com/meta-pytorch/torchcomms/pull/287",
        "https://github.com/pytorch/pytorch/issues/162338",
        "https://github.com/ROCm/rocm-systems/pull/10322",
    ),
    related=("replicas-summed", "group-divisor-mismatch", "sparse-path-own-scale"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(tensors):
    """Takes each rank's tensor as one contribution of one unit."""
    return list(tensors), Layout.from_counts([1] * len(tensors))


def sample(source):
    """Draws tensors of one size."""
    size = source.randint(1, 6)
    return [[source.randint(-50, 50) for _ in range(size)] for _ in range(source.randint(1, 6))]


def broken(tensors):
    summed = [sum(column) for column in zip(*tensors, strict=True)]
    return [value / len(summed) for value in summed]


def attempt(tensors):
    return [sum(column) for column in zip(*tensors, strict=True)]


def fixed(tensors):
    rank_count = len(tensors)
    return [sum(column) / rank_count for column in zip(*tensors, strict=True)]


def checks(N, solve, check):
    check("two ranks, three elements", solve([[N, 2 * N, 3 * N], [3 * N, 4 * N, 5 * N]]), [2 * N, 3 * N, 4 * N])
    check("two ranks, one element", solve([[N], [3 * N]]), [2 * N])
    check("four ranks, two elements", solve([[N, 4], [N, 4], [3 * N, 8], [3 * N, 8]]), [2 * N, 6])
    check("larger tensor", solve([[2] * (N + 4), [4] * (N + 4)]), [3] * (N + 4))
    check("as many elements as ranks", solve([[N, 2 * N], [3 * N, 6 * N]]), [2 * N, 4 * N])
    check("one rank", solve([[N, -N]]), [N, -N])
    check("empty tensor", solve([[], []]), [])
    check("no rank", solve([]), [])
