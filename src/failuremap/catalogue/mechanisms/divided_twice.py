"""The accumulated gradient is divided by the window twice: 1/M of the right weight."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="divided-twice",
    title="The accumulated gradient is divided by the window twice",
    abstract="The update shrinks with the number of accumulated micro-batches.",
    contract="Given gradients that are normalised over the window already, return their plain sum.",
    root_cause="The loss is divided by the window or its units, and a trainer or engine divides by the window again.",
    followed=(
        "mean_over_window",
        "weighted_mean_over_window",
        "rank_means_of_window_weighted_over_window",
        "window_means_of_rank_weighted_over_window",
    ),
    signs=signs(
        set(),
        {Sign.SINGLE_RANK},
        {Sign.COEFFICIENTS_MEAN},
        {Sign.COEFFICIENTS_SUM},
        {Sign.LOSS_OVER_WINDOW_TWICE},
    ),
    never=frozenset({Sign.SINGLE_MICRO_BATCH}),
    separated_by="another number of micro-batches than ranks: this factor is that of the window",
    repair=(
        "Divide in one place: leave / accumulation_steps out where the trainer or engine divides already, and where "
        "a summed loss is divided by the count of the whole window. Where counts differ, only the latter is right."
    ),
    references=(
        "https://github.com/Lightning-AI/pytorch-lightning/issues/6170",
        "https://github.com/huggingface/transformers/issues/35203",
        "https://github.com/modelscope/ms-swift/issues/10117",
    ),
)
