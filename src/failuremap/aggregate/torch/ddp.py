"""DistributedDataParallel: a communication hook that sums, and divides once by the counts that arrived.

Where a window reduces more than once, the gradients held between two reductions are the mean so far, the same on all
ranks. They enter the next sum once, as a sum, on the first rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from failuremap.aggregate.torch.backend import Backend, held
from failuremap.aggregate.torch.exact import HeldSums, Wire
from failuremap.aggregate.torch.ranks import Notice, Ranks, Tally
from failuremap.aggregate.torch.reduction import Reduction
from failuremap.aggregate.torch.settings import Settings
from failuremap.aggregate.torch.window import Window
from failuremap.errors import InvalidArgument, StepVoid

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket


class DDPBackend(Backend):
    """Divides in the hook, bucket by bucket."""

    def __init__(self, model: DistributedDataParallel, settings: Settings) -> None:
        super().__init__(model, settings, Ranks([model.process_group]))
        self.model = model
        self.grads_may_move = model.gradient_as_bucket_view
        self.sums = HeldSums()
        self._wire = Wire(model.process_group, self.ranks.device)
        self._reduction: Reduction | None = None
        self._reduced = False
        self._returning: list[Tensor] = []

    def refuse(self) -> None:
        """Refuses a model that has a communication hook of its own.

        Raises:
            InvalidArgument: It has.
        """
        if self.model._comm_hooks:
            hook = self.model._comm_hooks[0][0]
            name = getattr(hook, "__qualname__", type(hook).__name__)
            raise InvalidArgument(
                f"model has the communication hook {name!r}; attach needs its place. Attach to a "
                "DistributedDataParallel without a hook."
            )

    def install(self) -> None:
        """Registers the hook."""
        # DDP compares annotations with classes; a lambda has none.
        self.model.register_comm_hook(self, lambda backend, bucket: backend.reduce(bucket))

    def before(self) -> None:
        """Turns the mean that an earlier reduction left into a part of the coming sum."""
        if self._reduced and self.settings.nonfinite == "exclude":
            raise StepVoid(
                f"this window of rank {self.ranks.own} has already been reduced, and nonfinite='exclude' takes one "
                "reduction a window: run all its micro-batches but the last under model.no_sync()."
            )
        self._returning = [p for p in self.names if p.grad is not None] if self._reduced else []
        if self.settings.exact:
            if self._reduced:
                self.sums.add_kept()
                for parameter in self.names:
                    parameter.grad = None
            else:
                self.sums.take_gradients(self.names)
        elif self._reduced:
            self._re_enter(self.open_window())
        self._reduced, self._reduction = False, None

    def after(self) -> None:
        """Gives the result to parameters that this backward didn't use: DDP leaves them as they are."""
        if not self._reduced or self._reduction is None:
            return
        for parameter in self._returning:
            result = self._reduction.place_of(parameter)
            if result is None:
                continue
            if parameter.grad is None:
                parameter.grad = result.detach().clone()
            elif result.is_sparse or parameter.grad.data_ptr() != result.data_ptr():
                parameter.grad.copy_(result)

    def reduce(self, bucket: GradBucket) -> Future[Tensor]:
        """Starts the sum of one bucket over all ranks."""
        if bucket.index() == 0:
            window = self._reduced_window()
            sums = self.sums if window is self.window else HeldSums()
            self._reduction = Reduction(self.settings, self.ranks, window, sums, self._wire)
        assert self._reduction is not None, "DDP reduces its buckets in order"
        self._reduced = self._reduction.window is self.window
        return self._reduction.add(bucket)

    def close(self, window: Window) -> Tally:
        """Returns what all ranks put in, as it came with the gradients."""
        if window.unreduced_count:
            window.notice |= Notice.UNREDUCED
            slots = torch.zeros(2, self.ranks.size, dtype=torch.float64)
            slots[1, self.ranks.index] = int(window.notice)
            return Tally([slots])
        for message in window.messages:
            message.wait()
        return Tally([message.slots for message in window.messages])

    def end(self) -> None:
        """Forgets the window, and its exact sums."""
        super().end()
        self.sums.clear()
        self._reduced, self._reduction, self._returning = False, None, []

    def _reduced_window(self) -> Window:
        """Returns the window that this reduction belongs to; one of its own for a rank that has joined."""
        if self.running:
            return self.open_window()
        if torch._C._current_graph_task_id() == -1:  # no backward runs: Join reduces zeros for this rank
            return Window(notice=Notice.JOINED)
        window = self.open_window()
        window.notice |= Notice.UNCOUNTED
        return window

    def _re_enter(self, window: Window) -> None:
        total = int(sum(float(message.total()) for message in window.messages))
        factor = self.settings.divisor(total) / 2**window.exponent
        for gradient in held(self.names):
            if total and self.ranks.index == 0:
                gradient.mul_(factor)
            else:
                gradient.zero_()
