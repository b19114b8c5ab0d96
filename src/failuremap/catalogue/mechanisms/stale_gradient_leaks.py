"""Leftover buffer contents are added to the next gradient."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="stale-gradient-leaks",
    title="Leftover buffer contents are added to the next gradient",
    abstract="Each update holds the one before it as well: old gradients are stepped on again and again.",
    contract="Given new parts and a buffer with old contents, return the new parts alone.",
    root_cause="zero_grad() is missing, comes at the wrong place, or clears another buffer than the one stepped on.",
    by_signs_alone=True,
    signs=signs({Sign.PREVIOUS_UPDATE_ADDED}),
    never=frozenset({Sign.PREVIOUS_UPDATE_ONLY}),
    separated_by="whether the new contributions are in the update: they are here",
    repair=(
        "Clear after each step: optimizer.step(); optimizer.zero_grad(set_to_none=True), for every optimizer, and "
        "with it each buffer of your own that gradients are added to."
    ),
    references=(
        "https://github.com/NVIDIA/Megatron-LM/pull/4609",
        "https://github.com/sql-machine-learning/elasticdl/pull/2426",
    ),
)
