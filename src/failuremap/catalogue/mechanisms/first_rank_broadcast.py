"""All ranks step on the first rank's gradient: 1 on rank 0, 0 on the others."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="first-rank-broadcast",
    title="All ranks step on the first rank's gradient",
    abstract="The replicas agree, and the work of all ranks but one is thrown away.",
    contract="Given one gradient for each rank, return the mean over all of them, on every rank.",
    root_cause="The gradients, or the stepped parameters, are broadcast from rank 0 instead of being reduced.",
    followed=("first_rank",),
    by_signs_alone=True,
    signs=signs({Sign.FIRST_RANK_ONLY}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="the ranks that are left: the first one alone here",
    repair=(
        "Reduce instead of broadcasting, before optimizer.step(): for p in model.parameters(): "
        "dist.all_reduce(p.grad); p.grad /= dist.get_world_size(). DistributedDataParallel(model) does the same. No "
        "division where the loss is over the global count."
    ),
    references=(),
)
