"""Expert gradients are not divided by the expert-parallel size: 1/EDP where 1/(EDP EP) is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=25,
    slug="expert-divisor-misses-ep",
    title="Expert gradients are not divided by the expert-parallel size",
    group="group-sizes",
    abstract="Experts get a gradient that is too large by the expert-parallel size; the rest of the model is right.",
    root_cause=(
        "An expert sees tokens of every rank of its expert-parallel group, so its gradient is a sum over these ranks "
        "before any reduction; the reduction then averages over the expert's replicas, which are fewer than the ranks."
    ),
    failure=(
        "Four ranks, expert parallelism of 2: the tokens of the ranks give one expert the gradients 1, 3, 5 and 7, two "
        "replicas sum them to 4 and 12, and their average is 8, where 16/4 = 4 is right."
    ),
    failed_approach=(
        "Dividing the loss by the expert-parallel size mends the experts and shrinks router, attention and embedding, "
        "which had been divided by all ranks already."
    ),
    relevance=(
        "The factor changes with the parallel layout, so that experts learn at another rate than the model around "
        "them on every cluster. Found in MegaBlocks, DeepSpeed's bf16 optimizer, torchtitan's two FSDP variants and "
        "Megatron-FSDP; Adam hides it from the loss curve until clipping or weight decay weighs it against the rest."
    ),
    limitations=(
        "Routing is given: a token's gradient counts for the rank that it came from, and capacity, dropping and the "
        "balancing loss are left out."
    ),
    contract=(
        "Given, for each expert-parallel group, what the tokens of each of its ranks bring to one expert and to the "
        "dense parameters, each a mean over the rank's tokens, return the mean over all ranks for both, the expert "
        "first; [] without a rank."
    ),
    domain=(
        "groups: a list of lists, all of one length, of (expert, dense) pairs, one for each rank; expert and dense "
        "lists of integers, each of one length throughout, and either may be empty."
    ),
    clauses=(
        Clause(
            "expert-mean",
            "algebraic",
            "The expert's gradient is divided by all ranks whose tokens it saw in any replica.",
            ("two groups of two", "one group of two", "expert alone"),
        ),
        Clause(
            "dense-mean",
            "algebraic",
            "Dense gradients are divided by all ranks, whatever the expert-parallel size.",
            ("dense alone",),
        ),
        Clause(
            "unused",
            "boundary",
            "A rank none of whose tokens reach the expert still counts in the divisor.",
            ("expert used by one rank",),
        ),
        Clause("no-parallelism", "boundary", "Groups of one rank give the plain mean.", ("groups of one", "one rank")),
        Clause("nothing", "boundary", "Without a rank there is no update: [].", ("no rank",)),
    ),
    promised="mean",
    by_signs_alone=True,
    signs=signs({Sign.DIVIDED_BY_OWN_GROUP, Sign.SOME_PARAMETERS}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="a run without expert parallelism: the experts' update changes by its size, all other updates stay",
    symptoms=(
        "Expert gradients are ep_size times too large under expert parallelism, the dense ones right.",
        "MoE experts need a divide factor of their own.",
    ),
    audit_sees=(
        "Expert parameters, by name, whose update is a multiple of that of the rest; the multiple is the size of the "
        "expert-parallel group, the ranks over those that the script reduces these gradients over, in a job whose "
        "activations cross the ranks. Where FSDP2 reduces them below Python, it says the multiple alone."
    ),
    repair=(
        "Sum over the expert's replicas and divide by all ranks that tokens came from: dist.all_reduce(p.grad, "
        "group=expert_group); p.grad /= dist.get_world_size(). With FSDP2, on each module of experts: "
        "experts.set_gradient_divide_factor(data_rank_count), since its own mean is over the replicas alone."
    ),
    references=(
        "https://github.com/NVIDIA/Megatron-LM/pull/5956",
        "https://github.com/deepspeedai/DeepSpeed/pull/5259",
        "https://github.com/databricks/megablocks/pull/20",
        "https://github.com/pytorch/torchtitan/pull/1551",
        "https://github.com/pytorch/torchtitan/pull/1793",
        "https://github.com/NVIDIA/Megatron-LM/pull/7160",
    ),
    related=("group-divisor-mismatch", "divide-factor-on-root-only", "replicas-summed"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(groups):
    """Takes what each rank's tokens bring as one contribution of one unit."""
    cells = {(g, p): [*expert, *dense] for g, ranks in enumerate(groups) for p, (expert, dense) in enumerate(ranks)}
    return list(cells.values()), Layout.grid(dict.fromkeys(cells, 1))


def sample(source):
    """Draws groups of one size."""
    expert, width, size = source.randint(1, 3), source.randint(1, 6), source.randint(1, 4)
    groups = range(source.randint(1, 4))
    parts = [[[source.randint(-50, 50) for _ in range(width)] for _ in range(size)] for _ in groups]
    return [[(part[:expert], part[expert:]) for part in ranks] for ranks in parts]


def broken(groups):
    ranks = [rank for group in groups for rank in group]
    expert = [sum(column) / len(groups) for column in zip(*(rank[0] for rank in ranks), strict=True)]
    dense = [sum(column) / len(ranks) for column in zip(*(rank[1] for rank in ranks), strict=True)]
    return expert + dense


def attempt(groups):
    ranks = [rank for group in groups for rank in group]
    group_size = len(groups[0]) if groups else 1
    expert = [sum(column) / (len(groups) * group_size) for column in zip(*(rank[0] for rank in ranks), strict=True)]
    dense = [sum(column) / (len(ranks) * group_size) for column in zip(*(rank[1] for rank in ranks), strict=True)]
    return expert + dense


def fixed(groups):
    ranks = [rank for group in groups for rank in group]
    expert = [sum(column) / len(ranks) for column in zip(*(rank[0] for rank in ranks), strict=True)]
    dense = [sum(column) / len(ranks) for column in zip(*(rank[1] for rank in ranks), strict=True)]
    return expert + dense


def checks(N, solve, check):
    two = [[([N], [4]), ([3 * N], [8])], [([5 * N], [12]), ([7 * N], [16])]]
    check("two groups of two", solve(two), [4 * N, 10])
    check("one group of two", solve([[([N], [N]), ([3 * N], [5 * N])]]), [2 * N, 3 * N])
    check("expert alone", solve([[([2 * N, 0], []), ([0, 4 * N], [])]]), [N, 2 * N])
    check("dense alone", solve([[([], [N]), ([], [3 * N])]]), [2 * N])
    check("expert used by one rank", solve([[([8 * N], [2]), ([0], [2])], [([0], [2]), ([0], [2])]]), [2 * N, 2])
    check("groups of one", solve([[([N], [2 * N])], [([3 * N], [6 * N])]]), [2 * N, 4 * N])
    check("one rank", solve([[([N], [N])]]), [N, N])
    check("no rank", solve([]), [])


def edges(source):
    """Draws gradients of many elements, of both kinds and of one alone."""
    rows = [[source.randint(-50, 50) for _ in range(17)] for _ in range(6)]
    groups = [[rows[0], rows[1]], [rows[2], rows[3]], [rows[4], rows[5]]]
    return [[[(part[:cut], part[cut:]) for part in ranks] for ranks in groups] for cut in (0, 8, 9, 17)]
