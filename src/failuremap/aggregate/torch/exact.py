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
    """Moves numbers between the ranks of a group.

    Args:
        device: Where the group's backend takes tensors from.
    """

    def __init__(self, group: dist.ProcessGroup | None, device: torch.device) -> None:
        self.group = group
        self.size = 1 if group is None else group.size()
        self.index = 0 if group is None else group.rank()
        self.device = device

    def parts(self, values: Tensor) -> Tensor:
        """Sends each rank its part of values; returns all ranks' numbers for the own part, an (R, W) tensor."""
        sent = values.to(self.device)
        if self.size > 1:
            got = torch.empty_like(sent)
            dist.all_to_all_single(got, sent, group=self.group)
            sent = got
        return sent.cpu().view(self.size, -1)

    def whole(self, part: Tensor) -> Tensor:
        """Returns the parts of all ranks, one behind the other."""
        return self.parts(part.repeat(self.size)).view(-1)

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


def reduce_values(values: Tensor, divisor: int, wire: Wire) -> Tensor:
    """Returns the sum of all ranks' flat values over a whole number, rounded once."""
    padded = values.new_zeros(_padded(values.numel(), wire.size))
    padded[: values.numel()] = values
    part = exact_sum(list(wire.parts(padded)), divisor=divisor)
    return wire.whole(part)[: values.numel()]


def reduce_sums(total: ExactSum, divisor: int, like: Tensor, wire: Wire) -> Tensor:
    """Returns the sum of all ranks' exact sums over a whole number, rounded once.

    Args:
        total: This rank's sum, of a size that the number of ranks divides.
        like: A tensor of the result's dtype.
    """
    with_errors, with_rest = wire.anywhere([total.lo is not None, bool(total.rest)])
    upper = wire.parts(torch.from_numpy(total.hi)).numpy()
    errors = np.zeros(total.hi.size) if total.lo is None else total.lo
    lower = wire.parts(torch.from_numpy(errors)).numpy() if with_errors else None
    rests: list[dict[int, Fraction]] = wire.objects(total.rest) if with_rest else [{}] * wire.size
    own = ExactSum(upper.shape[1])
    start = wire.index * own.hi.size
    for rank, rest in enumerate(rests):
        piece = ExactSum(0)
        piece.hi, piece.lo = upper[rank], None if lower is None else lower[rank]
        piece.rest = {index - start: value for index, value in rest.items() if 0 <= index - start < own.hi.size}
        own.merge(piece)
    return wire.whole(rounded(own, divisor, like.new_empty(own.hi.size, device="cpu")))


def _padded(size: int, rank_count: int) -> int:
    return -(-size // rank_count) * rank_count


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

    def flat(self, parameters: Sequence[Tensor], values: Tensor, rank_count: int) -> ExactSum:
        """Returns the sums of a bucket's parameters, one behind the other, plus values; padded for the ranks."""
        total = ExactSum(_padded(values.numel(), rank_count))
        start = 0
        for parameter in parameters:
            if parameter in self._sums:
                _put(self._sums[parameter], total, start)
            start += parameter.numel()
        padded = values.new_zeros(total.hi.size)
        padded[: values.numel()] = values
        total.add(numbers_of(padded))
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
