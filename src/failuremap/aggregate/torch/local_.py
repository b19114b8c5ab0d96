"""One process without a wrapper: the micro-batches of a window, weighed by their counts."""

from __future__ import annotations

import torch
from torch import nn

from failuremap.aggregate.torch.backend import Backend, all_finite, divide, held
from failuremap.aggregate.torch.exact import HeldSums
from failuremap.aggregate.torch.ranks import Notice, Ranks, Tally
from failuremap.aggregate.torch.settings import Settings
from failuremap.aggregate.torch.window import Window


class LocalBackend(Backend):
    """Divides once, at the step."""

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        super().__init__(model, settings, Ranks())
        self.sums = HeldSums()

    def install(self) -> None:
        """Leaves the model as it is."""

    def before(self) -> None:
        """Adds the last micro-batch to the exact sums, so that the next has the gradients to itself."""
        if self.settings.exact:
            self.sums.take_gradients(self.names)

    def close(self, window: Window) -> Tally:
        """Returns this process's own count."""
        if self.settings.nonfinite != "propagate" and not all_finite(held(self.names)):
            if self.settings.nonfinite == "exclude":
                window.take()
                window.notice |= Notice.EXCLUDED
            else:
                window.notice |= Notice.NOT_FINITE
        slots = torch.tensor([[window.take()], [int(window.notice)]], dtype=torch.float64)
        return Tally([slots])

    def finish(self, window: Window, total: int) -> None:
        """Divides the gradients."""
        divisor = self.settings.divisor(total)
        if self.settings.exact:
            self.sums.take_gradients(self.names)
            self.sums.give_gradients(divisor)
        else:
            divide(held(self.names), divisor / 2**window.exponent)

    def end(self) -> None:
        """Forgets the window, and its exact sums."""
        super().end()
        self.sums.clear()
