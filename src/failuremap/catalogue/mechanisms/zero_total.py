"""A zero total of weights poisons the aggregation: 0/0."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="zero-total",
    title="A zero total of weights poisons the aggregation",
    abstract="A rank or micro-batch without a valid unit divides by zero, and nan reaches every parameter.",
    contract="Given rows whose total count is zero, they contribute nothing, and the update stays finite.",
    root_cause="A mean over no unit is 0/0, and the reduction spreads it.",
    by_signs_alone=True,
    signs=signs({Sign.NONFINITE, Sign.EMPTY_CONTRIBUTION}),
    separated_by="a batch in which each rank and micro-batch has a valid unit",
    repair=(
        "Divide summed losses, which are 0 over nothing, by the count of the whole window (the list of this rank's "
        "batches up to the step): n = sum((targets != -100).sum() for inputs, targets in window); "
        "dist.all_reduce(n); loss = F.cross_entropy(..., reduction='sum') / n.clamp(min=1), times "
        "dist.get_world_size() where the ranks are averaged (DDP)"
    ),
    references=(
        "https://github.com/allenai/OLMo-core/pull/657",
        "https://github.com/flwrlabs/flower/issues/7645",
        "https://github.com/NVIDIA-NeMo/Automodel/issues/3796",
    ),
)
