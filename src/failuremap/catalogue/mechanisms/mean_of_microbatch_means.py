"""Micro-batch means are averaged without their counts: 1/M where n_m/N is right."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="mean-of-microbatch-means",
    title="Micro-batch means are averaged without their token counts",
    abstract="A unit in a short micro-batch weighs more than one in a long micro-batch of the same window.",
    contract="Given [gradient_mean, count] rows for the micro-batches of a window, return the mean over all units.",
    why="Each backward divides by the count of its own micro-batch; dividing the sum by the window weighs all alike.",
    followed=("mean", "window_means_of_rank_weighted"),
    signs=signs({Sign.UNEQUAL_COUNTS_ACROSS_MICRO_BATCHES}),
    never=frozenset({Sign.SINGLE_MICRO_BATCH}),
    separated_by="unequal counts in the micro-batches, with equal counts on the ranks",
    repair=(
        "Count the window's units before its first backward and divide each summed loss by that: "
        "(loss_sum / window_count).backward()  # all ranks: all_reduce window_count, times the world size under DDP"
    ),
    references=(
        "https://github.com/meta-pytorch/torchtune/pull/1875",
        "https://github.com/karpathy/nanochat/pull/400",
        "https://github.com/ml-explore/mlx-lm/pull/1413",
    ),
)
