"""A globally normalised gradient is averaged over ranks again: n/(R N) where n/N is right."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="global-denominator-averaged-again",
    title="A globally normalised gradient is averaged over ranks again",
    abstract="The loss is divided by the count of all ranks, and the reduction divides by the number of ranks too.",
    contract="Given each rank's summed gradient over the global count, return the plain sum over the ranks.",
    root_cause="Half of a repair: the denominator became global, and the mean over the ranks stayed.",
    followed=("weighted_mean_over_ranks",),
    signs=signs({Sign.COEFFICIENTS_MEAN}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="another number of micro-batches than ranks: this factor is that of the ranks",
    repair=(
        "Undo the mean over the ranks: (loss * dist.get_world_size()).backward(), where loss is the summed loss "
        "over the count of all ranks. Or, in a loop of your own, all-reduce p.grad and leave / "
        "dist.get_world_size() out."
    ),
    references=(
        "https://github.com/huggingface/transformers/issues/37474",
        "https://github.com/pytorch/torchtitan/pull/2323",
        "https://github.com/Snowflake-AI-Research/Arctic-Platform/pull/119",
    ),
)
