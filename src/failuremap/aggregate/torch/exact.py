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


def as_array(values: Tensor) -> Array:
    """Returns a flat tensor's numbers: float64 stays, all else is float32, which holds it exactly."""
    dtype = torch.float64 if values.dtype == torch.float64 else torch.float32
    array: Array = values.detach().to("cpu", dtype).numpy()
    return array


def in_memory_order(tensor: Tensor) -> Tensor:
    """Returns a dense tensor's elements as they lie in memory, which is how a bucket of DDP holds them."""
    return tensor.as_strided((tensor.numel(),), (1,))


class Wire:
    """Moves arrays between the ranks of a group.

    Args:
        device: Where the group's backend takes tensors from.
    """

    def __init__(self, group: dist.ProcessGroup | None, device: torch.device) -> None:
        self.group = group
        self.size = 1 if group is None else group.size()
        self.device = device

    def parts(self, values: Array) -> Array:
        """Sends each rank its part of values; returns all ranks' numbers for the own part, an (R, W) array."""
        sent = self._tensor(values)
        if self.size > 1:
            got = torch.empty_like(sent)
            dist.all_to_all_single(got, sent, group=self.group)
            sent = got
        return self._array(sent).reshape(self.size, -1)

    def whole(self, part: Array) -> Array:
        """Returns the parts of all ranks, one behind the other."""
        return self.parts(np.tile(part, self.size)).reshape(-1)

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

    def _tensor(self, values: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    @staticmethod
    def _array(values: Tensor) -> Array:
        array: Array = values.cpu().numpy()
        return array


def reduce_values(values: Array, divisor: int, wire: Wire) -> Array:
    """Returns the sum of all ranks' values over a whole number, rounded once."""
    padded = np.zeros(_padded(values.size, wire.size), values.dtype)
    padded[: values.size] = values
    part = exact_sum(list(wire.parts(padded)), divisor=divisor)
    return wire.whole(part)[: values.size]


def reduce_sums(total: ExactSum, divisor: int, dtype: np.dtype[Any], wire: Wire) -> Array:
    """Returns the sum of all ranks' exact sums over a whole number, rounded once.

    Args:
        total: This rank's sum, of a size that the number of ranks divides.
    """
    with_errors, with_rest = wire.anywhere([total.lo is not None, bool(total.rest)])
    upper = wire.parts(total.hi)
    lower = wire.parts(np.zeros(total.hi.size) if total.lo is None else total.lo) if with_errors else None
    rests: list[dict[int, Fraction]] = wire.objects(total.rest) if with_rest else [{}] * wire.size
    width = upper.shape[1]
    start = 0 if wire.group is None else wire.group.rank() * width
    own = ExactSum(width)
    for rank, rest in enumerate(rests):
        piece = ExactSum(0)
        piece.hi, piece.lo = upper[rank], None if lower is None else lower[rank]
        piece.rest = {index - start: value for index, value in rest.items() if start <= index < start + width}
        own.merge(piece)
    return wire.whole(own.rounded(divisor, dtype))


def _padded(size: int, rank_count: int) -> int:
    return -(-size // rank_count) * rank_count


class HeldSums:
    """The exact sums of a window's micro-batches on this rank, one for each parameter."""

    def __init__(self) -> None:
        self._sums: dict[Tensor, ExactSum] = {}
        self._kept: list[tuple[Sequence[Tensor], Array]] = []

    def __bool__(self) -> bool:
        return bool(self._sums)

    @torch.no_grad()
    def take_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Adds the gradients to the sums and leaves the parameters without one."""
        for parameter in parameters:
            if parameter.grad is not None:
                like_parameter = torch.empty_like(parameter).copy_(parameter.grad)
                self._add(parameter, as_array(in_memory_order(like_parameter)))
                parameter.grad = None

    @torch.no_grad()
    def give_gradients(self, divisor: int) -> None:
        """Gives each parameter its sum over a whole number, rounded once, as the gradient."""
        for parameter, total in self._sums.items():
            parameter.grad = torch.empty_like(parameter)
            result = total.rounded(divisor, _dtype_of(parameter))
            in_memory_order(parameter.grad).copy_(torch.from_numpy(result))

    def keep(self, parameters: Sequence[Tensor], values: Array) -> None:
        """Keeps the gradients of one bucket, which are lost when it is reduced, for a later `add_kept`."""
        self._kept.append((parameters, values))

    def add_kept(self) -> None:
        """Adds what was kept to the sums."""
        for parameters, values in self._kept:
            ends = np.cumsum([parameter.numel() for parameter in parameters])
            for parameter, piece in zip(parameters, np.split(values, ends[:-1]), strict=True):
                self._add(parameter, piece)
        self._kept.clear()

    def flat(self, parameters: Sequence[Tensor], values: Array, rank_count: int) -> ExactSum:
        """Returns the sums of a bucket's parameters, one behind the other, plus values; padded for the ranks."""
        total = ExactSum(_padded(values.size, rank_count))
        start = 0
        for parameter in parameters:
            if parameter in self._sums:
                _put(self._sums[parameter], total, start)
            start += parameter.numel()
        padded = np.zeros(total.hi.size, values.dtype)
        padded[: values.size] = values
        total.add(padded)
        return total

    def clear(self) -> None:
        """Forgets everything."""
        self._sums.clear()
        self._kept.clear()

    def _add(self, parameter: Tensor, values: Array) -> None:
        self._sums.setdefault(parameter, ExactSum(values.size)).add(values)


def _put(piece: ExactSum, total: ExactSum, start: int) -> None:
    """Puts a sum into one of more elements, where that has nothing yet."""
    block = slice(start, start + piece.hi.size)
    total.hi[block] = piece.hi
    if piece.lo is not None:
        total.lo = np.zeros(total.hi.size) if total.lo is None else total.lo
        total.lo[block] = piece.lo
    total.rest.update({index + start: value for index, value in piece.rest.items()})


def _dtype_of(parameter: Tensor) -> np.dtype[Any]:
    return np.dtype(np.float64 if parameter.dtype == torch.float64 else np.float32)
