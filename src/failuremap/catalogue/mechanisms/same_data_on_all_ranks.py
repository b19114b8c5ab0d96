"""All ranks train on the same examples: R copies of one gradient."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=42,
    slug="same-data-on-all-ranks",
    title="All ranks train on the same examples",
    group="data",
    abstract="R ranks do the work of one: their batches are the same, and so are their gradients.",
    root_cause="The loader has no distributed sampler, or each rank seeds and shards as if it were alone.",
    failure=(
        "Two ranks with batches of one, over examples with gradients 2 and 4: both read the first, and the mean of "
        "their gradients is 2, where 3 is the mean of a batch of two."
    ),
    failed_approach=(
        "A seed for each rank makes the batches differ and not disjoint: ranks draw from all of the data, so examples "
        "meet in one step, and an epoch still holds each of them R times."
    ),
    relevance=(
        "Nothing looks wrong: losses fall, replicas agree, throughput scales, and the effective batch is that of one "
        "rank, at R times the cost. It follows an overridden dataloader method (mistral), a rank that could not be "
        "detected (icefall), or a loader that the framework cannot shard (rbyte with Lightning)."
    ),
    limitations="One step is modelled; the attempt's rotation by rank stands for a shuffle by a seed of its own.",
    contract=(
        "Given [rank_count, batch_size, gradients], the examples' gradients in the order that all ranks share, return "
        "the update of the first step: the mean over the first rank_count * batch_size examples, or over all where "
        "there are fewer; [] without an example."
    ),
    domain=(
        "loading: a triple of two integers of 1 or more, and a list of gradients, one for each example; gradient a "
        "list of integers, all of one length."
    ),
    clauses=(
        Clause(
            "disjoint",
            "algebraic",
            "Each example of the step is read by one rank, once.",
            ("two ranks", "batches of two", "three ranks"),
        ),
        Clause("later-steps", "algebraic", "Examples of later steps have no part in it.", ("more to come",)),
        Clause("few-examples", "boundary", "The mean is over those that are there.", ("fewer than fit",)),
        Clause("one-rank", "boundary", "One rank reads the first batch.", ("one rank",)),
        Clause("no-example", "boundary", "Without an example there is no update: [].", ("no example",)),
    ),
    by_signs_alone=True,
    signs=signs({Sign.SAME_CONTRIBUTIONS}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="the batches of two ranks in one step",
    symptoms=(
        "Identical batches on several GPUs: no DistributedSampler, or one seed for the data of all ranks.",
        "R times the compute, the same effective batch.",
        "Every GPU sees the same data, shuffled alike.",
    ),
    audit_sees="The same gradient on all ranks, computed on the same targets.",
    repair=(
        "Shard the data: sampler = DistributedSampler(data); loader = DataLoader(data, batch_size=size_per_rank, "
        "sampler=sampler); in every epoch sampler.set_epoch(epoch). A stream: itertools.islice(examples, rank, "
        "None, world_size)"
    ),
    references=(
        "https://github.com/stanford-crfm/mistral/issues/194",
        "https://github.com/yaak-ai/rbyte/pull/106",
        "https://github.com/k2-fsa/icefall/issues/1616",
    ),
    related=("example-multiplicity", "first-rank-broadcast", "never-synchronised"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(loading):
    """Takes each example of the first step as a contribution of one unit."""
    rank_count, size, gradients = loading
    step = gradients[: rank_count * size]
    return step, Layout.from_counts([1] * len(step))


def sample(source):
    """Draws a number of ranks, a batch size, and at least one example."""
    width = source.randint(1, 3)
    gradients = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 12))]
    return source.randint(1, 4), source.randint(1, 3), gradients


def broken(loading):
    rank_count, size, gradients = loading
    batches = [gradients[:size] for _ in range(rank_count)]
    read = [gradient for batch in batches for gradient in batch]
    return [sum(column) / len(read) for column in zip(*read, strict=True)]


def attempt(loading):
    rank_count, size, gradients = loading
    batches = [(gradients[rank:] + gradients[:rank])[:size] for rank in range(rank_count)]
    read = [gradient for batch in batches for gradient in batch]
    return [sum(column) / len(read) for column in zip(*read, strict=True)]


def fixed(loading):
    rank_count, size, gradients = loading
    batches = [gradients[rank::rank_count][:size] for rank in range(rank_count)]
    read = [gradient for batch in batches for gradient in batch]
    return [sum(column) / len(read) for column in zip(*read, strict=True)]


def checks(N, solve, check):
    check("two ranks", solve((2, 1, [[2 * N], [4 * N]])), [3 * N])
    check("batches of two", solve((2, 2, [[N, 0], [2 * N, 4], [3 * N, 0], [6 * N, 4]])), [3 * N, 2])
    check("three ranks", solve((3, 2, [[0], [0], [0], [N], [N], [N]])), [N / 2])
    check("more to come", solve((2, 1, [[2 * N], [4 * N], [99], [-99]])), [3 * N])
    check("fewer than fit", solve((4, 2, [[2 * N], [4 * N]])), [3 * N])
    check("one rank", solve((1, 2, [[N], [3 * N], [99]])), [2 * N])
    check("no example", solve((N, 2, [])), [])


def edges(source):
    """Draws batches of many examples, and steps that end in the middle of a rank's batch."""
    gradients = [[source.randint(-50, 50) for _ in range(2)] for _ in range(20)]
    gradients = gradients[:3] + gradients
    far = (1, 40), (3, 2**30), (4, 2**30), (64, 2**26), (16, 2**12)
    return [
        (ranks, size, gradients) for ranks, size in ((1, 9), (2, 7), (3, 5), (2, 11), (3, 8), (5, 5), (30, 1), *far)
    ]
