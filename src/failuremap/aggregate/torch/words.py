"""Why a step is void, in words."""

from __future__ import annotations

from failuremap.aggregate.torch.backend import Backend
from failuremap.aggregate.torch.ranks import Notice, Tally
from failuremap.aggregate.torch.window import Window

_SENTENCES = {
    Notice.FAILED: "a backward failed on {ranks}{reason}.",
    Notice.UNCOUNTED: (
        "a backward on {ranks} went past the handle, without a count; call handle.backward(loss, ...) in the place of "
        "loss.backward()."
    ),
    Notice.CHANGED: (
        "gradients on {ranks} were changed between handle.backward and handle.step(), which are the window's own till "
        "then; unscale and clip after handle.step()."
    ),
    Notice.NOT_FINITE: "the gradient of {ranks} holds infinity or NaN, and nonfinite='raise'.",
    Notice.SPARSE: "exact=True can't sum sparse gradients ({ranks}); use sparse=False in the embedding.",
    Notice.UNREDUCED: (
        "the window's last micro-batch was not reduced on {ranks}; leave no_sync(), or call "
        "set_requires_gradient_sync(True), before its forward."
    ),
}
_EVERY_MICRO_BATCH = (
    "a micro-batch was not reduced on {ranks}; exact=True under fully_shard needs set_requires_gradient_sync(True) for "
    "all micro-batches."
)


def problem_of(tally: Tally, backend: Backend, window: Window) -> str:
    """Says what makes the step void, and on which ranks; "" where nothing does."""
    for notice, sentence in _SENTENCES.items():
        ranks = [name for name, said in zip(backend.ranks.names, tally.notices, strict=True) if said & notice]
        if not ranks:
            continue
        every = notice is Notice.UNREDUCED and backend.settings.exact and not backend.keeps_exact_sums
        reason = f" ({window.reason})" if window.reason else ""
        return (_EVERY_MICRO_BATCH if every else sentence).format(ranks=listed(ranks), reason=reason)
    return ""


def listed(ranks: list[int]) -> str:
    """Says which ranks: `rank 1`, or `ranks 0, 2`."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
