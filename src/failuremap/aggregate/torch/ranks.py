"""The ranks that share one gradient, and what they tell each other beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntFlag
from functools import reduce
from operator import or_

import torch
import torch.distributed as dist
from torch import Tensor


class Notice(IntFlag):
    """What a rank has to say about its window, beside its count."""

    NONE = 0
    FAILED = 1
    """A backward raised."""
    UNCOUNTED = 2
    """A backward went past `handle.backward`."""
    NOT_FINITE = 4
    """The gradient holds infinity or NaN."""
    SPARSE = 8
    """A sparse gradient came where the sum is to be exact."""
    UNREDUCED = 16
    """The last micro-batch was kept back."""
    JOINED = 32
    """No data is left, under `Join`."""
    EXCLUDED = 64
    """The gradient was not finite, and was left out."""
    CHANGED = 128
    """Gradients were changed before the window was closed."""
    CARRIED = 256
    """Exact sums of earlier micro-batches wait beside the gradient."""


class Ranks:
    """The ranks of a data-parallel model; a sum over all of them passes through one group or, for HSDP, two.

    Args:
        groups: None where one process trains alone.
    """

    def __init__(self, groups: Sequence[dist.ProcessGroup] = ()) -> None:
        self.groups = tuple(groups)
        self.size = math.prod(group.size() for group in groups)
        self.index = 0
        for group in reversed(self.groups):
            self.index = self.index * group.size() + group.rank()
        self.own = dist.get_rank() if groups else 0
        self.names: tuple[int, ...] = (self.own,) * self.size
        """The ranks in the default group, by their index here."""
        self.device = _device_of(self.groups)

    def add_up(self, values: Tensor) -> None:
        """Replaces values by their sum over all ranks."""
        for group in self.groups:
            dist.all_reduce(values, group=group)

    def spread(self, values: Tensor) -> Tensor:
        """Returns one row of values for each rank, the same on all of them."""
        rows = torch.zeros(self.size, values.numel(), dtype=values.dtype)
        rows[self.index] = values
        rows = rows.to(self.device)
        self.add_up(rows)
        return rows


def _device_of(groups: tuple[dist.ProcessGroup, ...]) -> torch.device:
    """Where the group's backend takes tensors from: the CPU, wherever it can."""
    if not groups or "cpu:" in dist.get_backend_config(groups[0]):
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


class Message:
    """Counts and notices of all ranks, on their way: one small sum, with a slot for each rank."""

    def __init__(self, ranks: Ranks, count: int, notice: Notice) -> None:
        slots = torch.zeros(2, ranks.size, dtype=torch.float64)
        slots[0, ranks.index], slots[1, ranks.index] = count, int(notice)
        self.slots = slots.to(ranks.device)

    def send(self, group: dist.ProcessGroup) -> None:
        """Starts the sum over one group."""
        self._work = dist.all_reduce(self.slots, group=group, async_op=True)
        assert self._work is not None

    @property
    def future(self) -> torch.futures.Future[list[Tensor]]:
        """Is done when the sum has arrived."""
        assert self._work is not None
        future: torch.futures.Future[list[Tensor]] = self._work.get_future()
        return future

    def total(self) -> Tensor:
        """Returns the sum of all counts, once it has arrived."""
        return self.slots[0].sum()

    def wait(self) -> None:
        """Returns when the sum has arrived."""
        assert self._work is not None
        self._work.wait()


class Tally:
    """What all ranks put into a window, and said about it, by index."""

    def __init__(self, messages: Sequence[Tensor]) -> None:
        rows = [slots.tolist() for slots in messages]
        self.counts = [sum(int(slots[0][k]) for slots in rows) for k in range(len(rows[0][0]))]
        self.notices = [reduce(or_, (Notice(int(slots[1][k])) for slots in rows)) for k in range(len(rows[0][0]))]

    @property
    def total(self) -> int:
        """N: the counts of all ranks."""
        return sum(self.counts)
