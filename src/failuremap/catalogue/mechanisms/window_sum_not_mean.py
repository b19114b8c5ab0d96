"""Accumulated micro-batch means are summed without a window divisor: M times the right weight."""

from failuremap.catalogue.mechanism import Mechanism
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="window-sum-not-mean",
    title="Accumulated micro-batch means are summed without a window divisor",
    abstract="The update grows with the number of accumulated micro-batches, as if the learning rate did.",
    contract="Given the mean gradients of a window's micro-batches, return the mean over the window's units.",
    root_cause="backward() adds to .grad, and nothing divides the mean losses by the number of micro-batches.",
    followed=(
        "mean_over_ranks_sum_over_window",
        "weighted_mean_times_window",
        "rank_means_of_window_weighted_times_window",
        "sum_of_globally_weighted_micro_batches",
        "sum",
    ),
    never=frozenset({Sign.SINGLE_MICRO_BATCH}),
    separated_by="another number of micro-batches than ranks: this factor is that of the window",
    repair=(
        "Divide summed losses once, by the count of the whole window (the list of this rank's batches up to the "
        "step): n = sum((targets != -100).sum() for inputs, targets in window); with several ranks "
        "dist.all_reduce(n); loss = F.cross_entropy(..., reduction='sum') / n, times dist.get_world_size() where "
        "the ranks are averaged (DDP). Or, for equal counts and averaged ranks: (loss / len(window)).backward()"
    ),
    references=(
        "https://github.com/pytorch/pytorch/pull/144352",
        "https://github.com/huggingface/transformers/issues/37766",
        "https://github.com/verl-project/verl/pull/3332",
    ),
)
