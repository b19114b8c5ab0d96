"""Only the last micro-batch reaches the optimizer: 0 on all earlier ones."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="accumulator-overwritten",
    title="Only the last micro-batch reaches the optimizer",
    abstract="The earlier micro-batches of a window are computed and thrown away; the loss looks normal.",
    contract="Given the gradients of a window's micro-batches, return the sum or mean of all of them.",
    root_cause="The gradient is cleared, or copied over instead of added to, between two micro-batches of one window.",
    followed=("last_micro_batch",),
    by_signs_alone=True,
    signs=signs({Sign.LAST_MICRO_BATCH_ONLY}),
    never=frozenset({Sign.SINGLE_MICRO_BATCH}),
    separated_by="the micro-batch that is left: the last one here",
    repair=(
        "Clear once in a window, after the step: optimizer.step(); optimizer.zero_grad(set_to_none=True). Let each "
        "backward() add to p.grad, never assign it; the losses that now add up are divided once, for equal counts: "
        "(loss / len(window)).backward()"
    ),
    references=(
        "https://github.com/pytorch/pytorch/issues/73784",
        "https://github.com/deepspeedai/DeepSpeed/pull/6550",
        "https://github.com/NVIDIA/Megatron-LM/pull/7186",
    ),
)
