"""One backward of DDP: its buckets, summed over the ranks and divided once.

The counts go ahead of the first bucket, so that each bucket is divided as soon as it has arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future, collect_all

from failuremap.aggregate.torch.backend import all_finite
from failuremap.aggregate.torch.exact import HeldSums, Wire, reduce_sums, reduce_values
from failuremap.aggregate.torch.ranks import Message, Notice, Ranks
from failuremap.aggregate.torch.settings import Settings
from failuremap.aggregate.torch.window import Window

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket

_LOW_PRECISION = (torch.float16, torch.bfloat16)


class Bucket(NamedTuple):
    """What is kept of a bucket: its numbers, which parameters' they are, and where each one's lie."""

    buffer: Tensor
    parameters: Sequence[Tensor]
    gradients: Sequence[Tensor]


class Reduction:
    """Takes the buckets of one backward as DDP fills them, and gives each a future.

    Args:
        sums: For exact sums: those of the micro-batches that were kept back.
    """

    def __init__(self, settings: Settings, ranks: Ranks, window: Window, sums: HeldSums, wire: Wire) -> None:
        self.settings, self.ranks, self.window, self.sums, self.wire = settings, ranks, window, sums, wire
        (self.group,) = ranks.groups
        self.buckets: list[Bucket] = []
        self._waiting: list[Future[Tensor]] = []
        # Whether a rank's gradient is finite is known with its last bucket; till then nothing is sent.
        self._waits = settings.nonfinite != "propagate"
        if not self._waits:
            self._announce()

    def add(self, bucket: GradBucket) -> Future[Tensor]:
        """Starts the sum of a bucket, or of all when it is the last, where they wait."""
        buffer = bucket.buffer()
        self.buckets.append(Bucket(buffer, bucket.parameters(), [buffer] if buffer.is_sparse else bucket.gradients()))
        if not self._waits:
            return self._send(self.buckets[-1])
        self._waiting.append(_future(buffer))
        future = self._waiting[-1]
        if bucket.is_last():
            self._judge()
            self._announce()
            for each, waiting in zip(self.buckets, self._waiting, strict=True):
                _pass_on(self._send(each), waiting)
        return future

    def place_of(self, parameter: Tensor) -> Tensor | None:
        """Returns where the bucket holds the result of a parameter."""
        for bucket in self.buckets:
            for known, gradient in zip(bucket.parameters, bucket.gradients, strict=True):
                if known is parameter:
                    return gradient
        return None

    def _judge(self) -> None:
        if all_finite(bucket.buffer for bucket in self.buckets):
            return
        if self.settings.nonfinite == "raise":
            self.window.notice |= Notice.NOT_FINITE
            return
        self.window.notice |= Notice.EXCLUDED
        self.window.count = self.window.pending = 0
        self.sums.clear()
        for bucket in self.buckets:
            bucket.buffer.zero_()

    def _announce(self) -> None:
        count = self.window.take()
        if self.settings.exact:  # all of the window is summed anew
            count = self.window.count
            self.window.messages.clear()
        carried = Notice.CARRIED if self.sums else Notice.NONE
        self.message = Message(self.ranks, count, self.window.notice | carried)
        self.message.send(self.group)
        self.window.messages.append(self.message)

    def _send(self, bucket: Bucket) -> Future[Tensor]:
        if self.settings.exact and bucket.buffer.is_sparse:
            self.window.notice |= Notice.SPARSE
        elif self.settings.exact:
            return self._send_exactly(bucket)
        buffer, messages = bucket.buffer, list(self.window.messages)
        wide = buffer.float() if buffer.dtype in _LOW_PRECISION else buffer
        if self.window.exponent:
            wide.mul_(2.0**self.window.exponent)
        work = dist.all_reduce(wide, group=self.group, async_op=True)
        assert work is not None
        divides = self.settings.rule != "sum"

        def arrived(both: Future[list[Future[object]]]) -> Tensor:
            for each in both.value():
                each.value()
            if divides:
                wide.div_(torch.stack([message.total() for message in messages]).sum())
            return wide if wide is buffer else buffer.copy_(wide)

        return collect_all([work.get_future(), self.message.future]).then(arrived)

    def _send_exactly(self, bucket: Bucket) -> Future[Tensor]:
        self.message.wait()
        divisor = max(self.settings.divisor(int(self.message.total())), 1)
        self.sums.keep(bucket.parameters, bucket.buffer.to("cpu", copy=True))
        carried = any(int(notice) & Notice.CARRIED for notice in self.message.slots[1].tolist())
        if carried:
            reduce_sums(self.sums.flat(bucket.parameters, bucket.buffer), divisor, bucket.buffer, self.wire)
        else:
            reduce_values(bucket.buffer, divisor, self.wire)
        return _done(bucket.buffer)


def _future(buffer: Tensor) -> Future[Tensor]:
    return Future(devices=[buffer.device]) if buffer.is_cuda else Future()


def _done(buffer: Tensor) -> Future[Tensor]:
    future = _future(buffer)
    future.set_result(buffer)
    return future


def _pass_on(source: Future[Tensor], to: Future[Tensor]) -> None:
    def arrived(done: Future[Tensor]) -> None:
        try:
            to.set_result(done.value())
        except Exception as failure:  # noqa: BLE001  it belongs to whoever waits
            to.set_exception(failure)  # type: ignore[arg-type]

    source.then(arrived)
