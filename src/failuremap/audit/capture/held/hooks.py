"""The hook on a parameter. It is called for each of them in every backward pass, so its usual way is short.

After a few matrix products what the interpreter needs is in no cache: a call costs ten times what it does in a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor
from torch.utils.hooks import unserializable_hook

if TYPE_CHECKING:
    from failuremap.audit.capture.recorder import Recorder
    from failuremap.audit.capture.watching import Watched


def hook_of(recorder: Recorder, find: Callable[[], Watched | None]) -> Callable[[Tensor | None], None]:
    """What is called with each gradient of a parameter, before anything reduces or accumulates it; raises nothing.

    Args:
        recorder: Where the gradient is noted.
        find: The parameter, as it is known when the gradient comes; where it is None, nothing happens.
    """

    def hook(gradient: Tensor | None) -> None:
        if not recorder.active or gradient is None:  # an output of DDP's that no loss took hands none back
            return
        try:
            watched, backward = find(), recorder.backward
            if watched is None:
                return
            if backward is None:
                recorder.on_gradient(watched, gradient)
            elif recorder.sampling.in_part and not watched.chosen:
                backward.passed_by = True
            elif (piece := watched.quick(gradient)) is None:
                recorder.on_gradient(watched, gradient)
            else:
                recorder.keep(backward, watched, piece)
        except Exception as error:  # the job that is watched must never see it
            recorder.note_error("on_gradient", error)

    marked: Callable[[Tensor | None], None] = unserializable_hook(hook)
    return marked
