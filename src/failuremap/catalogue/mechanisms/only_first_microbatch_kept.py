"""Only the first micro-batch reaches the optimizer: 0 on all later ones."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="only-first-microbatch-kept",
    title="Only the first micro-batch reaches the optimizer",
    abstract="The later micro-batches of a window are computed and never added.",
    contract="Given the gradients of a window's micro-batches, return the sum or mean of all of them.",
    root_cause="The gradient is saved or sent after the first backward, and the later ones never join it.",
    followed=("first_micro_batch",),
    by_signs_alone=True,
    signs=signs({Sign.FIRST_MICRO_BATCH_ONLY}),
    never=frozenset({Sign.SINGLE_MICRO_BATCH}),
    separated_by="the micro-batch that is left: the first one here",
    repair=(
        "Copy, send and step on p.grad after the window's last backward() only. The losses that now add up are "
        "divided once, for equal counts: (loss / len(window)).backward()"
    ),
    references=(),
)
