"""Gradients are clipped before they are aggregated: min(1, C/|g_k|) on each."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="clip-in-wrong-place",
    title="Gradients are clipped before they are aggregated",
    abstract="Each rank or micro-batch is scaled by its own norm, so weights change with the data.",
    contract="Aggregate all contributions, then clip the update once, by one norm on every rank.",
    root_cause="clip_grad_norm_ runs inside the window, or before the reduction.",
    by_signs_alone=True,
    signs=signs({Sign.CLIPPED_BEFORE_REDUCTION}),
    separated_by="a run without clipping",
    repair=(
        "Clip once in a window, after its last backward() and after the ranks are reduced (under DDP that "
        "backward() does it): torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm); optimizer.step(). With "
        "a GradScaler, scaler.unscale_(optimizer) comes before the clipping."
    ),
    references=(
        "https://github.com/horovod/horovod/issues/1346",
        "https://github.com/tenstorrent/tt-metal/pull/17672",
    ),
)
