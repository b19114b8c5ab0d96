"""The divisor counts parts that contribute nothing: valid/(valid + idle) of the right weight."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="divisor-counts-idle-parts",
    title="The divisor counts parts that contribute nothing",
    abstract="Padding, masked units or empty micro-batches shrink the update of those that count.",
    contract="Given [gradient_sum, valid_count] rows, divide by the valid ones only.",
    root_cause="The denominator is a size (of a tensor, of a window, of the world), not a count of what contributes.",
    by_signs_alone=True,
    signs=signs({Sign.EMPTY_CONTRIBUTION}, {Sign.IDLE_UNITS_COUNTED}),
    never=frozenset({Sign.NONFINITE}),
    separated_by="a batch without padding, in which each rank and micro-batch has a valid unit",
    repair=(
        "Divide summed losses by what counts in the whole window (the list of this rank's batches up to the step): "
        "n = sum((targets != -100).sum() for inputs, targets in window); dist.all_reduce(n); loss = "
        "F.cross_entropy(..., reduction='sum') / n, times dist.get_world_size() where the ranks are averaged (DDP). "
        "No other division."
    ),
    references=(
        "https://github.com/NVIDIA-NeMo/RL/issues/212",
        "https://github.com/ServiceNow/Fast-LLM/pull/426",
        "https://github.com/PrimeIntellect-ai/prime-rl/pull/674",
    ),
)
