"""A rank's contribution never arrives: 0 on that rank."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="rank-dropped",
    title="A rank's contribution never arrives",
    abstract="One rank computes gradients that no update holds: its data are not learned from.",
    contract="Given one gradient for each rank, every one of them is in the update.",
    root_cause="The rank sends zeros or an old buffer, is not in the process group, or its branch skips the reduction.",
    by_signs_alone=True,
    signs=signs({Sign.RANK_MISSING}),
    never=frozenset({Sign.OWN_RANK_ONLY, Sign.SINGLE_RANK}),
    separated_by="the ranks that are left: all others here",
    repair=(
        "Reduce p.grad itself, on every rank, over the default group, before optimizer.step(): for p in "
        "model.parameters(): dist.all_reduce(p.grad); p.grad /= dist.get_world_size(). No division where the loss "
        "is over the global count."
    ),
    references=(),
)
