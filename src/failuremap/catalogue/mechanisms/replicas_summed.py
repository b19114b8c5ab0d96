"""Full replicas are summed as if they were partials: c = 1 where 1/R is right."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="replicas-summed",
    title="Full replicas are summed as if they were partials",
    abstract="The update is the right one times the number of ranks: the learning rate grows with the job.",
    contract="Given one mean gradient for each rank, return their mean over the units of all ranks.",
    root_cause="The reduction adds, and neither the loss nor the optimizer divides by the number of ranks.",
    followed=(
        "sum_over_ranks_mean_over_window",
        "weighted_mean_times_ranks",
        "sum_of_rank_weighted_windows",
        "window_means_of_rank_weighted_times_ranks",
        "sum",
    ),
    signs=signs({Sign.COEFFICIENTS_SUM}),
    never=frozenset({Sign.SINGLE_RANK, Sign.LOSS_TIMES_WORLD}),
    separated_by="another number of micro-batches than ranks: this factor is that of the ranks",
    repair=(
        "Divide once after the sum: for p in model.parameters(): dist.all_reduce(p.grad); p.grad /= "
        "dist.get_world_size(), with (loss / len(window)).backward() under accumulation. Where counts differ, sum "
        "only, and divide summed losses by the units of the window, all-reduced: F.cross_entropy(..., "
        "reduction='sum') / n"
    ),
    references=(
        "https://github.com/keras-team/keras/pull/20609",
        "https://github.com/nyu-mll/jiant/pull/989",
        "https://github.com/pytorch/torchtitan/pull/2106",
    ),
)
