"""Gradients are averaged over the ranks twice: 1/R^2 where 1/R is right."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="averaged-over-ranks-twice",
    title="Gradients are averaged over the ranks twice",
    abstract="Two places divide by the number of ranks; the update is too small by that number.",
    contract="Given one mean gradient for each rank, return their mean: divided by the number of ranks once.",
    root_cause="The wrapper averages, and the loop or the loss divides by the world size as well.",
    followed=(
        "mean_over_ranks",
        "weighted_mean_over_ranks",
        "rank_means_of_window_weighted_over_ranks",
        "window_means_of_rank_weighted_over_ranks",
    ),
    signs=signs({Sign.COEFFICIENTS_MEAN_TWICE}, {Sign.LOSS_OVER_WORLD}),
    never=frozenset({Sign.SINGLE_RANK, Sign.COEFFICIENTS_SUM}),
    separated_by="another number of micro-batches than ranks: this factor is that of the ranks",
    repair=(
        "Divide by the world size in one place. DDP does it already: leave / dist.get_world_size() out of the loss "
        "and out of the loop over p.grad. Without DDP keep one of them. Where counts differ between the ranks, see "
        "replica-means-ignore-counts as well."
    ),
    references=(
        "https://github.com/tczhangzhi/pytorch-distributed/issues/14",
        "https://github.com/deepspeedai/DeepSpeed/pull/4957",
    ),
)
