"""Sums over ranks and micro-batches that are those of exact arithmetic, rounded once.

Each rank gets its part of every contribution, adds up exactly, rounds, and sends the result to all. What a rank brings
is the gradient itself or, where earlier micro-batches of the window were kept back, their exact sum.

Legend: D elements, R ranks, W elements of a rank's part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from failuremap.aggregate.exact import exact_sum
from failuremap.aggregate.exact_state import ExactSum
from failuremap.aggregate.exact_terms import Array
from failuremap.aggregate.torch.tensors import flat, format_of, shaped


def numbers_of(values: Tensor) -> Array:
    """Returns a tensor's numbers, flat, in float32 or float64: the same ones."""
    storage, form = flat(values.cpu())
    return form.widen(storage)


def rounded(total: ExactSum, divisor: int, like: Tensor) -> Tensor:
    """Returns an exact sum over a whole number, rounded once, in the shape and dtype of another tensor."""
    return shaped(total.rounded(divisor, format_of(like)), like)


def in_memory_order(tensor: Tensor) -> Tensor:
    """Returns a dense tensor's elements as they lie in memory, which is how a bucket of DDP holds them."""
    return tensor.as_strided((tensor.numel(),), (1,))


class Wire:
    """Moves numbers between the ranks of a group; each rank has a part of every flat tensor.

    Args:
        device: Where the group's backend takes tensors from.
    """

    def __init__(self, group: dist.ProcessGroup | None, device: torch.device) -> None:
        self.group = group
        self.size = 1 if group is None else group.size()
        self.index = 0 if group is None else group.rank()
        self.device = device
        self._memory = torch.empty(0, dtype=torch.uint8)

    def part_of(self, size: int, index: int) -> slice:
        """Returns which of so many elements are a rank's part."""
        return slice(size * index // self.size, size * (index + 1) // self.size)

    def parts(self, values: Tensor, *, lasting: bool = True) -> Tensor:
        """Sends each rank its part of flat values; returns all ranks' numbers for the own part, an (R, W) tensor.

        Args:
            lasting: Whether the result outlives the next call; else its memory is used again.
        """
        if self.size == 1:
            return values.cpu().view(1, -1)
        places = [self.part_of(values.numel(), index) for index in range(self.size)]
        widths = [place.stop - place.start for place in places]
        own = widths[self.index]
        got = self._room(self.size * own, values.dtype, lasting)
        dist.all_to_all_single(got, values.to(self.device), [own] * self.size, widths, group=self.group)
        return got.cpu().view(self.size, -1)

    def share(self, part: Tensor, into: Tensor) -> None:
        """Sends the own part to all ranks, and puts all ranks' parts into a flat tensor."""
        into[self.part_of(into.numel(), self.index)] = part
        if self.size == 1:
            return
        whole = into.to(self.device)
        own = whole[self.part_of(into.numel(), self.index)]
        calls = []
        for index in range(self.size):
            if index != self.index:
                peer = dist.get_global_rank(self.group, index) if self.group is not None else index
                theirs = whole[self.part_of(into.numel(), index)]
                calls.append(dist.P2POp(dist.isend, own, peer, self.group))
                calls.append(dist.P2POp(dist.irecv, theirs, peer, self.group))
        for work in dist.batch_isend_irecv(calls):
            work.wait()
        if whole is not into:
            into.copy_(whole)

    def everything(self, values: Tensor) -> Tensor:
        """Returns the flat values of all ranks, an (R, W) tensor."""
        rows = values.new_empty(self.size * values.numel())
        self.share(values, rows)
        return rows.cpu().view(self.size, -1)

    def _room(self, size: int, dtype: torch.dtype, lasting: bool) -> Tensor:
        if lasting:
            return torch.empty(size, dtype=dtype, device=self.device)
        needed = size * dtype.itemsize
        if self._memory.numel() < needed:
            self._memory = torch.empty(needed, dtype=torch.uint8, device=self.device)
        return self._memory[:needed].view(dtype)

    def anywhere(self, flags: Sequence[bool]) -> list[bool]:
        """Returns for each flag whether any rank has it up."""
        values = torch.tensor(flags, dtype=torch.int32).to(self.device)
        if self.size > 1:
            dist.all_reduce(values, dist.ReduceOp.MAX, group=self.group)
        return [bool(value) for value in values.tolist()]

    def objects(self, value: Any) -> list[Any]:
        """Returns the values of all ranks."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.group)
        return values


def reduce_values(values: Tensor, divisor: int, wire: Wire) -> None:
    """Replaces flat values by the sum of all ranks' over a whole number, rounded once."""
    wire.share(exact_sum(list(wire.parts(values, lasting=False)), divisor=divisor), values)


def reduce_sums(total: ExactSum, divisor: int, into: Tensor, wire: Wire) -> None:
    """Puts the sum of all ranks' exact sums over a whole number, rounded once, into a flat tensor."""
    with_errors, with_rest = wire.anywhere([total.lo is not None, bool(total.rest)])
    upper = wire.parts(torch.from_numpy(total.hi)).numpy()
    errors = np.zeros(total.hi.size) if total.lo is None else total.lo
    lower = wire.parts(torch.from_numpy(errors)).numpy() if with_errors else None
    rests: list[dict[int, Fraction]] = wire.objects(total.rest) if with_rest else [{}] * wire.size
    place = wire.part_of(total.hi.size, wire.index)
    own = ExactSum(upper.shape[1])
    for rank, rest in enumerate(rests):
        piece = ExactSum(0)
        piece.hi, piece.lo = upper[rank], None if lower is None else lower[rank]
        piece.rest = {index - place.start: value for index, value in rest.items() if place.start <= index < place.stop}
        own.merge(piece)
    wire.share(rounded(own, divisor, into.new_empty(own.hi.size, device="cpu")), into)


class HeldSums:
    """The exact sums of a window's micro-batches on this rank, one for each parameter."""

    def __init__(self) -> None:
        self._sums: dict[Tensor, ExactSum] = {}
        self._kept: list[tuple[Sequence[Tensor], Tensor]] = []

    def __bool__(self) -> bool:
        return bool(self._sums)

    @torch.no_grad()
    def take_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Adds the gradients to the sums and leaves the parameters without one."""
        for parameter in parameters:
            if parameter.grad is not None:
                like_parameter = torch.empty_like(parameter).copy_(parameter.grad)
                self._add(parameter, in_memory_order(like_parameter))
                parameter.grad = None

    @torch.no_grad()
    def give_gradients(self, divisor: int) -> None:
        """Gives each parameter its sum over a whole number, rounded once, as the gradient."""
        for parameter, total in self._sums.items():
            parameter.grad = torch.empty_like(parameter)
            into = in_memory_order(parameter.grad)
            into.copy_(rounded(total, divisor, torch.empty_like(into, device="cpu")))

    def keep(self, parameters: Sequence[Tensor], values: Tensor) -> None:
        """Keeps the gradients of one bucket, which are lost when it is reduced, for a later `add_kept`."""
        self._kept.append((parameters, values))

    def add_kept(self) -> None:
        """Adds what was kept to the sums."""
        for parameters, values in self._kept:
            pieces = values.split([parameter.numel() for parameter in parameters])
            for parameter, piece in zip(parameters, pieces, strict=True):
                self._add(parameter, piece)
        self._kept.clear()

    def flat(self, parameters: Sequence[Tensor], values: Tensor) -> ExactSum:
        """Returns the sums of a bucket's parameters, one behind the other, plus values."""
        total = ExactSum(values.numel())
        start = 0
        for parameter in parameters:
            if parameter in self._sums:
                _put(self._sums[parameter], total, start)
            start += parameter.numel()
        total.add(numbers_of(values))
        return total

    def clear(self) -> None:
        """Forgets everything."""
        self._sums.clear()
        self._kept.clear()

    def _add(self, parameter: Tensor, values: Tensor) -> None:
        self._sums.setdefault(parameter, ExactSum(values.numel())).add(numbers_of(values))


def _put(piece: ExactSum, total: ExactSum, start: int) -> None:
    """Puts a sum into one of more elements, where that has nothing yet."""
    block = slice(start, start + piece.hi.size)
    total.hi[block] = piece.hi
    if piece.lo is not None:
        total.lo = np.zeros(total.hi.size) if total.lo is None else total.lo
        total.lo[block] = piece.lo
    total.rest.update({index + start: value for index, value in piece.rest.items()})
