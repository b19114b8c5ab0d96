"""The divisor counts a different group than the reduction: 1/|B| where 1/|A| is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=24,
    slug="group-divisor-mismatch",
    title="The divisor counts a different group than the reduction",
    group="group-sizes",
    abstract="A replica is split over several ranks, and its gradient is divided as if each of them were a replica.",
    root_cause=(
        "Reduction and division take their group from different places once sequence, context or tensor parallelism "
        "gives the job more than one: the sum runs over all ranks, and only some of these hold data of their own."
    ),
    failure=(
        "Two replicas of two sequence shards hold the partial gradients 1, 3 and 5, 7. Their sum over two replicas is "
        "8; divided by all four ranks it is 4, and with eight shards a replica an eighth of the right step."
    ),
    failed_approach=(
        "Correcting the divisor of the dense buckets leaves the path of the embedding's rows on the old one: the "
        "parameters then differ by the size of the shard group, which no gradient norm of the whole model gives away."
    ),
    relevance=(
        "The same global batch gives another gradient at another parallel layout, by a whole factor. DeepSpeed's stage "
        "0 divided by sequence times data ranks where stage 1 did not (norms 3.956 and 15.825 at four shards), "
        "Megatron-LM multiplied the loss by the context-parallel size under a division by data ranks, and the same "
        "divide factor meant different things on FSDP and HSDP meshes in PyTorch."
    ),
    limitations=(
        "Each shard's gradient is a part of its replica's mean, whose denominator is right; a token count that is "
        "taken over the wrong group is denominator-window-mismatch."
    ),
    contract=(
        "Given, for each data-parallel replica, the partial gradients of the ranks that it is split over, dense part "
        "and embedding part apart, return their sum over all ranks divided by the number of replicas, the dense part "
        "first; [] without a replica."
    ),
    domain=(
        "replicas: a list of lists, all of one length, of (dense, embedding) pairs, one for each rank; dense and "
        "embedding lists of integers, each of one length throughout, and either may be empty."
    ),
    clauses=(
        Clause(
            "parts-add-up",
            "algebraic",
            "The ranks of one replica are summed, in both parts of the model.",
            ("one replica, two parts", "embedding alone", "dense alone"),
        ),
        Clause(
            "replicas-average",
            "algebraic",
            "The replicas are averaged.",
            ("two replicas, two parts", "two replicas, unsplit"),
        ),
        Clause(
            "any-split",
            "algebraic",
            "Splitting a replica over more ranks changes nothing.",
            ("one part holds all", "four parts"),
        ),
        Clause("nothing", "boundary", "Without a replica there is no update: [].", ("no replica",)),
    ),
    promised="mean_over_ranks_sum_over_window",
    separated_by="a run of the same batch at another size of the shard group: the update changes by the ratio of sizes",
    symptoms=(
        "The gradient grows with the sequence-parallel or context-parallel size.",
        "dp2cp4 and dp8 train differently at the same global batch; the divisor counts another group.",
    ),
    audit_sees=(
        "Units that weigh alike and together the reciprocal of a group's size, which passes for a factor of the "
        "script's own; with one replica only it is 1/R and is named global-denominator-averaged-again."
    ),
    audit_blind=(
        "A script may weigh its loss as it likes: that its factor is the size of a group of ranks which it calls "
        "collectives on is told in a note, and proves nothing."
    ),
    repair=(
        "Divide by the size of the group whose ranks hold different samples, on every path: dist.all_reduce(p.grad); "
        "p.grad /= dist.get_world_size(data_group). Under DDP or FSDP2 over all ranks, which divide by all of them, "
        "multiply the loss by the size of the shard group: (loss * dist.get_world_size(sequence_group)).backward()"
    ),
    references=(
        "https://github.com/deepspeedai/DeepSpeed/pull/5555",
        "https://github.com/NVIDIA/Megatron-LM/issues/906",
        "https://github.com/pytorch/pytorch/issues/155903",
        "https://github.com/hamishivi/tmax/pull/9",
        "https://github.com/NovaSky-AI/SkyRL/pull/1420",
        "https://github.com/deepspeedai/DeepSpeed/issues/5248",
    ),
    related=("expert-divisor-misses-ep", "partials-averaged", "averaged-over-ranks-twice", "sparse-path-own-scale"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(replicas):
    """Takes each rank's part as a contribution: of its replica, as the layout's rank, and its place in it."""
    cells = {(r, p): [*dense, *rows] for r, parts in enumerate(replicas) for p, (dense, rows) in enumerate(parts)}
    return list(cells.values()), Layout.grid(dict.fromkeys(cells, 1))


def sample(source):
    """Draws replicas that are split alike."""
    dense, size, split = source.randint(0, 3), source.randint(1, 6), source.randint(1, 4)
    replicas = range(source.randint(1, 4))
    parts = [[[source.randint(-50, 50) for _ in range(size)] for _ in range(split)] for _ in replicas]
    return [[(part[:dense], part[dense:]) for part in replica] for replica in parts]


def broken(replicas):
    parts = [part for replica in replicas for part in replica]
    rank_count = len(parts)
    dense = [sum(column) / rank_count for column in zip(*(part[0] for part in parts), strict=True)]
    embedding = [sum(column) / rank_count for column in zip(*(part[1] for part in parts), strict=True)]
    return dense + embedding


def attempt(replicas):
    parts = [part for replica in replicas for part in replica]
    rank_count, replica_count = len(parts), len(replicas)
    dense = [sum(column) / replica_count for column in zip(*(part[0] for part in parts), strict=True)]
    embedding = [sum(column) / rank_count for column in zip(*(part[1] for part in parts), strict=True)]
    return dense + embedding


def fixed(replicas):
    parts = [part for replica in replicas for part in replica]
    replica_count = len(replicas)
    dense = [sum(column) / replica_count for column in zip(*(part[0] for part in parts), strict=True)]
    embedding = [sum(column) / replica_count for column in zip(*(part[1] for part in parts), strict=True)]
    return dense + embedding


def checks(N, solve, check):
    two = [[([N], [2]), ([3 * N], [4])], [([5 * N], [6]), ([7 * N], [8])]]
    check("two replicas, two parts", solve(two), [8 * N, 10])
    check("two replicas, unsplit", solve([[([N], [2 * N])], [([3 * N], [4 * N])]]), [2 * N, 3 * N])
    check("one replica, two parts", solve([[([N], [N]), ([3 * N], [5 * N])]]), [4 * N, 6 * N])
    check("one part holds all", solve([[([4 * N], [2 * N]), ([0], [0])]]), [4 * N, 2 * N])
    check("four parts", solve([[([N], [0]), ([N], [N]), ([N], [0]), ([N], [N])]]), [4 * N, 2 * N])
    check("embedding alone", solve([[([], [N]), ([], [N])]]), [2 * N])
    check("dense alone", solve([[([N], []), ([2 * N], [])]]), [3 * N])
    check("no replica", solve([]), [])


def edges(source):
    """Draws parts of many elements, of both kinds and of one alone."""
    rows = [[source.randint(-50, 50) for _ in range(17)] for _ in range(6)]
    replicas = [[rows[0], rows[1]], [rows[2], rows[3]], [rows[4], rows[5]]]
    return [[[(part[:cut], part[cut:]) for part in replica] for replica in replicas] for cut in (0, 8, 9, 17)]
