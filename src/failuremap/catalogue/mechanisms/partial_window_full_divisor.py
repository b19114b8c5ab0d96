"""The last short window is divided by the full window size: 1/G where 1/M is right."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="partial-window-full-divisor",
    title="The last short window is divided by the full window size",
    abstract="At the end of an epoch fewer micro-batches are left, and their update is too small.",
    contract="Given M micro-batches of a window that would hold G, divide by M.",
    root_cause="The divisor is the configured accumulation, not the number of micro-batches that came.",
    followed=("mean_over_full_window", "weighted_mean_over_full_window"),
    signs=signs({Sign.SHORT_WINDOW}),
    separated_by="a window shorter than the others",
    repair=(
        "Divide by the micro-batches that come: size = min(accumulation_steps, len(loader) - first), first = index "
        "of the window's first batch; (loss / size).backward(). Where counts differ, divide summed losses by the "
        "count of the window instead (see mean-of-microbatch-means)."
    ),
    references=(
        "https://github.com/Lightning-AI/pytorch-lightning/issues/19987",
        "https://github.com/jingyaogong/minimind/issues/749",
        "https://github.com/huggingface/accelerate/issues/1847",
    ),
)
