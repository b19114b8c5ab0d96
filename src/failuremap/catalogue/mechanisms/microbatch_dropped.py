"""A micro-batch of the window reaches no update: 0 on that one."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="microbatch-dropped",
    title="A micro-batch of the window reaches no update",
    abstract="Some micro-batches are computed and lost, while several others of the same window are kept.",
    contract="Each micro-batch of a window is in exactly one update.",
    root_cause="A schedule, a skipped backward or a clear in the middle of the window loses what came before it.",
    by_signs_alone=True,
    signs=signs({Sign.MICRO_BATCH_MISSING}),
    never=frozenset({Sign.SINGLE_MICRO_BATCH, Sign.FIRST_MICRO_BATCH_ONLY, Sign.LAST_MICRO_BATCH_ONLY}),
    separated_by="the micro-batches that are left: several here",
    repair=(
        "Clear once in a window, after the step: optimizer.step(); optimizer.zero_grad(set_to_none=True). Run "
        "backward() on every micro-batch; the losses that now add up are divided once, for equal counts: (loss / "
        "len(window)).backward()"
    ),
    references=("https://github.com/WalkingMeatAxolotl/AnimaLoraStudio/pull/305",),
)
