"""A world-size factor compensates a division that is not there: R times the right weight."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="compensation-without-cause",
    title="A world-size factor compensates a division that is not there",
    abstract="The loss is multiplied by the number of ranks although nothing divides by it unduly.",
    contract="A factor R belongs on the loss only where the loss is over the global count and the reduction is a mean.",
    root_cause=(
        "The factor that undoes DDP's division of a globally normalised loss was taken over into a job "
        "that sums its gradients, or whose loss is a mean over the rank's own units."
    ),
    followed=(
        "sum_over_ranks_mean_over_window",
        "weighted_mean_times_ranks",
        "sum_of_rank_weighted_windows",
        "window_means_of_rank_weighted_times_ranks",
        "weighted_mean_times_ranks_twice",
        "mean_times_ranks_twice",
        "rank_means_of_window_weighted_times_ranks_twice",
        "sum",
    ),
    signs=signs({Sign.LOSS_TIMES_WORLD}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="another number of micro-batches than ranks: this factor is that of the ranks",
    repair=(
        "Keep the factor only where a summed loss is divided by the global count and the ranks are averaged (DDP): "
        "F.cross_entropy(..., reduction='sum') * dist.get_world_size() / n, n = units of the window, all-reduced. "
        "Leave it out where the ranks are summed over such a loss, and on a mean loss under DDP (right for equal "
        "counts only)."
    ),
    references=(
        "https://github.com/neuralmagic/sparseml/pull/135",
        "https://github.com/pytorch/pytorch/issues/5778",
        "https://github.com/horovod/horovod/issues/6",
    ),
)
