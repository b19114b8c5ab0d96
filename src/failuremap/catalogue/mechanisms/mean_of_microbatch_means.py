"""Micro-batch means are averaged without their counts: 1/M where n_m/N is right."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="mean-of-microbatch-means",
    title="Micro-batch means are averaged without their token counts",
    abstract="A unit in a short micro-batch weighs more than one in a long micro-batch of the same window.",
    contract="Given [gradient_mean, count] rows for the micro-batches of a window, return the mean over all units.",
    root_cause="Each backward divides by its own micro-batch's count; the window then weighs them alike.",
    followed=("mean", "window_means_of_rank_weighted"),
    signs=signs({Sign.UNEQUAL_COUNTS_ACROSS_MICRO_BATCHES}),
    never=frozenset({Sign.SINGLE_MICRO_BATCH}),
    separated_by="unequal counts in the micro-batches, with equal counts on the ranks",
    repair=(
        "Divide summed losses once, by the count of the whole window (the list of this rank's batches up to the "
        "step). Before its first backward: n = sum((targets != -100).sum() for inputs, targets in window); with "
        "several ranks dist.all_reduce(n). Then in each: loss = F.cross_entropy(..., reduction='sum') / n, times "
        "dist.get_world_size() where the ranks are averaged (DDP). No / accumulation_steps."
    ),
    references=(
        "https://github.com/meta-pytorch/torchtune/pull/1875",
        "https://github.com/karpathy/nanochat/pull/400",
        "https://github.com/ml-explore/mlx-lm/pull/1413",
    ),
)
