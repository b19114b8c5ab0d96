"""All ranks train on the same examples: R copies of one gradient."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="same-data-on-all-ranks",
    title="All ranks train on the same examples",
    abstract="R ranks do the work of one: their batches are the same, and so are their gradients.",
    contract="The ranks of a data-parallel job read disjoint examples.",
    root_cause="The loader has no distributed sampler, or each rank seeds and shards as if it were alone.",
    by_signs_alone=True,
    signs=signs({Sign.SAME_CONTRIBUTIONS}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="the batches of two ranks in one step",
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
)
