"""Accumulated micro-batch means are summed without a window divisor: M times the right weight."""

from failuremap.catalogue.mechanism import Mechanism
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="window-sum-not-mean",
    title="Accumulated micro-batch means are summed without a window divisor",
    abstract="The update grows with the number of accumulated micro-batches, as if the learning rate did.",
    contract="Given the mean gradients of a window's micro-batches, return the mean over the window's units.",
    why="backward() adds to .grad, and nothing divides the mean losses by the number of micro-batches.",
    followed=(
        "mean_over_ranks_sum_over_window",
        "weighted_mean_times_window",
        "rank_means_of_window_weighted_times_window",
        "sum_of_globally_weighted_micro_batches",
        "sum",
    ),
    never=frozenset({Sign.SINGLE_MICRO_BATCH}),
    separated_by="another number of micro-batches than ranks: this factor is that of the window",
    repair="Divide by the window: (loss / accumulation_steps).backward(), or the summed loss by the window's count.",
    references=(
        "https://github.com/pytorch/pytorch/pull/144352",
        "https://github.com/huggingface/transformers/issues/37766",
        "https://github.com/verl-project/verl/pull/3332",
    ),
)
