"""Examples are repeated or dropped by the split over ranks: 2/N or 0 where 1/N is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism

MECHANISM = Mechanism(
    number=41,
    slug="example-multiplicity",
    title="Examples are repeated or dropped by the split over ranks",
    group="data",
    abstract="An epoch over all ranks holds some examples twice, or leaves some out.",
    root_cause=(
        "The split makes the ranks equally long, or is made twice, or is drawn by each rank on its own: none of these "
        "gives each example exactly one place."
    ),
    failure=(
        "Seven examples on two ranks are padded to eight: example 0 is read on both ranks and weighs 2/8 of the "
        "epoch, the others 1/8, where 1/7 is right."
    ),
    failed_approach=(
        "Dropping the tail that doesn't divide evenly repeats nothing and gives up to R - 1 examples no weight at "
        "all; of fewer examples than ranks nothing is left."
    ),
    relevance=(
        "Padding hardly matters to a large training set, and much to a short epoch, an evaluation whose metric counts "
        "examples twice, or a join over ids. Sharding twice is worse: where a loader that is split by rank already is "
        "split again (accelerate, axolotl's context parallelism), most of the data is never seen."
    ),
    limitations="That uneven ranks must still meet in every collective (Join, or an empty batch) is not modelled.",
    contract=(
        "Given [examples, rank_count], return one list of examples for each rank: each example on exactly one rank, "
        "in turn, so that the ranks' lengths differ by 1 at most."
    ),
    domain="split: a pair of a list of distinct examples, and an integer of 1 or more.",
    clauses=(
        Clause(
            "exactly-once",
            "algebraic",
            "Each example is on one rank, once.",
            ("seven over two", "one too many", "almost even"),
        ),
        Clause("even", "algebraic", "Where the ranks divide the examples, all have as many.", ("six over three",)),
        Clause("few-examples", "boundary", "Ranks without an example get none.", ("one over three", "no example")),
        Clause("one-rank", "boundary", "One rank reads all of them in order.", ("one rank",)),
    ),
    promised="",
    law="The ranks' lists together hold each example once, and their lengths differ by 1 at most.",
    separated_by="the ids that the ranks read in one epoch, counted",
    symptoms=(
        "The sampler's padding repeats samples; a sample is twice in one global batch.",
        "Data already split by rank is split again.",
    ),
    audit_sees="Units that all weigh the same: to the audit each copy of an example is a unit of its own.",
    audit_blind="The audit counts units by their losses and cannot know that two of them are one example.",
    repair=(
        "Give each rank examples of its own and no others: data = torch.utils.data.Subset(data, range(rank, "
        "len(data), world_size)), or order[rank::world_size] of a permutation that all ranks share. Then weigh by "
        "counts, as last batches differ: loss = F.cross_entropy(..., reduction='sum') * world_size / n, n all-reduced. "
        "A rank that runs out of batches goes on with an empty one, or inside Join."
    ),
    references=(
        "https://github.com/pytorch/pytorch/pull/41171",
        "https://github.com/pytorch/pytorch/pull/12474",
        "https://github.com/huggingface/accelerate/pull/4201",
        "https://github.com/NVIDIA-NeMo/Megatron-Bridge/pull/5944",
        "https://github.com/axolotl-ai-cloud/axolotl/pull/3498",
    ),
    related=("same-data-on-all-ranks", "replica-means-ignore-counts", "tail-window-dropped"),
    published="2026-11-30",
    modified="2026-11-30",
)


def sample(source):
    """Draws distinct examples and a number of ranks."""
    return [source.randint(0, 9) * 100 + index for index in range(source.randint(1, 12))], source.randint(1, 5)


def law(split, solve):
    """Counts the examples on all ranks, and the ranks' lengths."""
    examples, rank_count = split
    ranks = solve(split)
    lengths = [len(rank) for rank in ranks]
    read = sorted(example for rank in ranks for example in rank)
    return len(ranks) == rank_count and read == sorted(examples) and max(lengths) - min(lengths) <= 1


def broken(split):
    examples, rank_count = split
    size = -(-len(examples) // rank_count) * rank_count
    padded = (examples * rank_count)[:size]
    return [padded[rank::rank_count] for rank in range(rank_count)]


def attempt(split):
    examples, rank_count = split
    size = len(examples) // rank_count * rank_count
    return [examples[:size][rank::rank_count] for rank in range(rank_count)]


def fixed(split):
    examples, rank_count = split
    return [examples[rank::rank_count] for rank in range(rank_count)]


def checks(N, solve, check):
    seven = [10 * N + index for index in range(7)]
    check("seven over two", solve((seven, 2)), [seven[::2], seven[1::2]])
    check("one too many", solve((list(range(4 * N + 1)), 4)), [list(range(rank, 4 * N + 1, 4)) for rank in range(4)])
    check("almost even", solve((list(range(N + 1)), N + 2)), [[rank] for rank in range(N + 1)] + [[]])
    check("six over three", solve((seven[:6], 3)), [seven[0:6:3], seven[1:6:3], seven[2:6:3]])
    check("one over three", solve(([N], 3)), [[N], [], []])
    check("no example", solve(([], N)), [[]] * N)
    check("one rank", solve((seven, 1)), [seven])


def edges(source):
    """Draws examples of all kinds of numbers: below 0, with fractions, large."""
    first = source.randint(0, 9) * 100
    kinds = [-first - 1, 0.5, first + 0.125, -(2.0**60), 2**53 + 1 + first, 10**9, first, 1e-9, -3.75]
    return [(kinds, rank_count) for rank_count in (1, 2, 4, 9, 10)]
